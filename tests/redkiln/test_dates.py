from datetime import UTC, datetime

import pytest

from redkiln.dates import derive_from_date, read_date


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-31", (2024, 1, 31)),
        (" 2024/1/31 ", (2024, 1, 31)),
        ("2024-01-31 10:20:30.123456", (2024, 1, 31, 10, 20, 30)),
        ("2024-01-31T10:20:30+02:00", (2024, 1, 31, 10, 20, 30)),
        ("31 Jan 2024", (2024, 1, 31)),
        ("January 31, 2024", (2024, 1, 31)),
        ("31-Jan-2024 12:05 am", (2024, 1, 31, 0, 5)),
        ("31 Jan 2024 3:05 PM", (2024, 1, 31, 15, 5)),
        ("31-JAN-24", (2024, 1, 31)),
        ("Jan 31, 99", (1999, 1, 31)),
        ("20240131", (2024, 1, 31)),
        ("20240131.0", (2024, 1, 31)),
        ("20240131T10:20", (2024, 1, 31, 10, 20)),
    ],
)
@pytest.mark.parametrize("day_first", [False, True])
def test_dates_with_a_clear_order_are_read_in_one_way(text, expected, day_first):
    assert read_date(text, day_first=day_first) == datetime(*expected, tzinfo=UTC)


def test_the_order_of_day_and_month_is_the_callers():
    assert read_date("03/04/2024", day_first=True) == datetime(2024, 4, 3, tzinfo=UTC)
    assert read_date("03/04/2024", day_first=False) == datetime(2024, 3, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("31/12/23", (2023, 12, 31)),
        ("31.12.68 8:30", (2068, 12, 31, 8, 30)),
        ("31-12-69", (1969, 12, 31)),
    ],
)
def test_years_of_two_digits_come_last_and_are_from_1969_to_2068(text, expected):
    assert read_date(text, day_first=True) == datetime(*expected, tzinfo=UTC)
    assert read_date(text, day_first=False) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "None",
        "2024-02-30",
        "1.2.13",
        "1.12.2",
        "31/12/2",
        "12 05 24",
        "12/05-24",
        "30240131",
        "20241301",
        "202401311",
        "20240131.5",
        "May 2024",
        "12:30",
        "one two six",
    ],
)
@pytest.mark.parametrize("day_first", [False, True])
def test_other_texts_are_not_dates(text, day_first):
    assert read_date(text, day_first=day_first) is None


def test_the_ends_of_a_cycle_are_neighbours():
    december, january = (
        derive_from_date(datetime(2023, month, 15, tzinfo=UTC)) for month in (12, 1)
    )
    july = derive_from_date(datetime(2023, 7, 15, tzinfo=UTC))
    assert january["month_cos"] - december["month_cos"] < january["month_cos"] - july["month_cos"]
    assert derive_from_date(datetime(1970, 1, 2, 12, tzinfo=UTC))["ordinal"] == 1.5
