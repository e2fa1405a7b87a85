"""Dates, amounts with units, and codes."""

import datetime as dt
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PARTS = ["year", "month", "day", "weekday", "ordinal", "month_sin", "month_cos"]
FIRST_DAY = dt.date(2023, 1, 1)


def days(num=60, step=13):
    return [FIRST_DAY + dt.timedelta(days=step * i) for i in range(num)]


def csv(values, *, header="sold,size,label"):
    lines = [f'"{value}",{i * 0.37:.2f},{"ab"[i % 2]}' for i, value in enumerate(values)]
    return "\n".join([header, *lines]) + "\n"


def parquet(values):
    num = len(values)
    table = pa.table({"sold": values, "size": list(range(num)), "label": ["a", "b"] * (num // 2)})
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def numbers_of(looked):
    """Return the derived numbers of each date, by its days since 1970."""
    table = looked.table.to_pydict()
    names = [name for name in table if name.startswith("sold.")]
    rows = zip(*(table[name] for name in names), strict=True)
    return sorted(dict(zip(names, row, strict=True)).items() for row in rows)


@pytest.mark.parametrize(
    "write",
    [
        str,
        lambda day: f"{day:%Y/%m/%d}",
        lambda day: f"{day:%d.%m.%Y}",
        lambda day: f"{day:%m/%d/%Y}",
        lambda day: f"{day:%d %b %Y}",
        lambda day: f"{day:%B %d, %Y}",
        lambda day: f"{day:%Y-%m-%dT00:00:00Z}",
        lambda day: f"{day:%m/%d/%y}",
        lambda day: f"{day:%d.%m.%y}",
        lambda day: f"{day:%Y%m%d}",
    ],
    ids=[
        "ISO",
        "slashes",
        "day first",
        "month first",
        "named month",
        "American",
        "with a time",
        "short year",
        "short year last",
        "compact",
    ],
)
def test_dates_become_the_same_numbers_however_they_are_written(look, write):
    looked = look(csv(map(write, days())))
    assert looked.errors == []
    assert looked.uses()["sold"] == "ignored"
    assert {f"sold.{part}" for part in PARTS} <= {column.name for column in looked.index.columns}
    assert numbers_of(looked) == numbers_of(look(csv(days())))


def test_parquet_dates_and_timestamps_become_the_same_numbers_as_in_a_csv(look):
    moments = [dt.datetime.combine(day, dt.time()) for day in days()]
    expected = numbers_of(look(csv(days())))
    assert numbers_of(look(parquet(days()))) == expected
    assert numbers_of(look(parquet(moments))) == expected
    assert numbers_of(look(parquet([int(f"{day:%Y%m%d}") for day in days()]))) == expected


def test_derived_numbers_are_right(look):
    looked = look(csv(["2024-02-29 06:30", *(f"{day} 18:00" for day in days())]))
    (row,) = [
        row for row in looked.table.to_pylist() if (row["sold.month"], row["sold.day"]) == (2, 29)
    ]
    assert (row["sold.year"], row["sold.weekday"], row["sold.hour"]) == (2024, 3, 6.5)
    assert row["sold.ordinal"] == 19782 + 6.5 / 24
    assert row["sold.month_sin"] == pytest.approx(0.5)
    origin = next(c for c in looked.index.columns if c.name == "sold.month").derived
    assert (origin.column, origin.part, origin.day_first) == ("sold", "month", False)


def test_parts_that_never_differ_are_left_out(look):
    looked = look(csv([f"2024-05-{1 + i % 28:02}" for i in range(60)]))
    names = {column.name for column in looked.index.columns}
    assert "sold.day" in names
    assert not names & {"sold.year", "sold.month", "sold.hour"}


def test_missing_dates_are_missing_numbers(look):
    looked = look(csv(["" if i % 10 == 0 else day for i, day in enumerate(days())]))
    assert looked.table["sold.month"].null_count == 6


def test_dates_that_may_begin_with_day_or_month_are_not_used(look):
    looked = look(csv([f"{1 + i % 12:02}/{1 + i % 11:02}/2024" for i in range(60)]))
    assert looked.uses()["sold"] in ("ignored", "categorical")
    assert not any(column.derived for column in looked.index.columns)
    assert any("the first part may be the day or the month" in note for note in looked.report.notes)


def test_a_clear_column_of_dates_decides_an_unclear_one(look):
    lines = ["ordered,sold,label"]
    unclear = [f"{1 + i % 12:02}/{1 + i % 11:02}/2024" for i in range(60)]
    lines += [f"{1 + i % 28:02}/03/2024,{day},{i % 2}" for i, day in enumerate(unclear)]
    origins = [column.derived for column in look("\n".join(lines)).index.columns]
    assert {origin.column for origin in origins} == {"ordered", "sold"}
    assert all(origin.day_first for origin in origins)


@pytest.mark.parametrize("use", ["categorical", "ignored"])
def test_the_user_can_keep_dates_as_they_are(look, use):
    looked = look(csv([f"2024-05-{1 + i % 5:02}" for i in range(60)]), columns={"sold": use})
    assert looked.uses() == {"sold": use, "size": "numeric", "label": "target"}


def orders(**options):
    """Rows with two dates, in two ways of writing, and one gap."""
    lines = ["ordered,sent,size,label"]
    for i, day in enumerate(days()):
        sent = "" if i == 5 else f"{day + dt.timedelta(days=i % 7):%d.%m.%y}"
        lines.append(f"{day},{sent},{i * 0.37:.2f},{'ab'[i % 2]}")
    return "\n".join(lines)


def test_the_days_between_two_dates_are_a_column(look):
    looked = look(orders())
    assert looked.errors == []
    rows = [row for row in looked.table.to_pylist() if row["sent.ordinal"] is not None]
    between = {row["sent.days_since_ordered"] for row in rows}
    assert between == set(range(7))
    assert all(
        row["sent.days_since_ordered"] == row["sent.ordinal"] - row["ordered.ordinal"]
        for row in rows
    )
    assert looked.table["sent.days_since_ordered"].null_count == 1
    without = look(orders(), columns={"sent.days_since_ordered": "ignored"})
    assert "sent.days_since_ordered" not in without.table.column_names
    unknown = look(orders(), columns={"sent.days_since_paid": "ignored"})
    assert unknown.codes == ["unknown_column"]


def test_single_derived_numbers_can_be_ignored(look):
    looked = look(csv(days()), columns={"sold.year": "ignored", "sold.month": "numeric"})
    names = {column.name for column in looked.index.columns}
    assert "sold.month" in names
    assert "sold.year" not in names
    assert look(csv(days()), columns={"sold.month": "categorical"}).codes == ["unknown_column"]
    assert look(csv(days()), columns={"bought.month": "ignored"}).codes == ["unknown_column"]


def test_short_years_that_may_come_first_are_not_used(look):
    looked = look(csv([f"{day:%y-%m-%d}" for day in days(step=3)]))
    assert not any(column.derived for column in looked.index.columns)
    assert any("its years have two digits" in note for note in looked.report.notes)


def test_whole_numbers_of_eight_digits_are_dates_only_if_all_are(look):
    looked = look(csv([20240101 + 37 * i for i in range(60)]))
    assert looked.uses()["sold"] == "numeric"
    assert look(csv([20240101 + i for i in range(30)])).uses()["sold"] == "ignored"
    asked = look(csv([f"{day:%Y%m%d}" for day in days()]), columns={"sold": "numeric"})
    assert asked.uses()["sold"] == "numeric"


def test_versions_and_times_are_not_dates(look):
    looked = look(csv([f"1.{i % 12}.{i % 28}" for i in range(60)]))
    assert not any(column.derived for column in looked.index.columns)


def test_a_column_of_dates_is_enough_to_train_on(look):
    content = "\n".join(f"{day},{'ab'[i % 2]}" for i, day in enumerate(days()))
    assert look(f"sold,label\n{content}\n").errors == []


@pytest.mark.parametrize(
    ("write", "unit", "first", "has_separators"),
    [
        (lambda i: f"${i + 1},234", "$", 1234, True),
        (lambda i: f"$ {i + 1}.50", "$", 1.5, False),
        (lambda i: f"-£{i + 1}", "£", -1, False),
        (lambda i: f"{i * 7 % 60 + 1}%", "%", 1, False),
        (lambda i: f"{i + 1}.234,50 €", "€", 1234.5, True),
        (lambda i: f"{i + 1}.25 EUR" if i % 9 else f"€{i + 1}.5", "€", 1.5, False),
        (lambda i: f"USD {i + 1},234.5", "$", 1234.5, True),
        (lambda i: f"{i + 1},50", "", 1.5, False),
    ],
)
def test_amounts_with_a_unit_are_numbers(look, write, unit, first, has_separators):
    looked = look(csv([write(i) for i in range(60)], header="price,size,label"))
    assert looked.errors == []
    (price, *_) = looked.index.columns
    assert (price.type, price.written.unit) == ("numeric", unit)
    assert price.written.separates_thousands is has_separators
    values = [value for value in looked.table["price"].to_pylist() if value is not None]
    assert min(values, key=abs) == first


@pytest.mark.parametrize(
    ("write", "unit", "numbers"),
    [
        (lambda i: f"{i % 20}.5 km/h", "km/h", {i + 0.5 for i in range(20)}),
        (lambda i: f"{i}kg" if i % 4 else f"{i}", "kg", set(range(60))),
        (lambda i: f"{i},5 m²", "m²", {i + 0.5 for i in range(60)}),
        (lambda i: f"{i} {'day' if i % 60 == 1 else 'days'}", "days", set(range(60))),
        (lambda i: f"{i % 9} Zimmer" if i % 9 else "", "Zimmer", {*range(1, 9), None}),
    ],
)
def test_numbers_with_the_same_word_after_them_are_numbers(look, write, unit, numbers):
    looked = look("\n".join(["way;label", *(f"{write(i)};{'ab'[i % 2]}" for i in range(60))]))
    assert looked.errors == []
    (way,) = looked.index.columns
    assert (way.type, way.written.unit) == ("numeric", unit)
    found = set(looked.table["way"].to_pylist())
    assert found <= numbers
    assert len(found) > len(numbers) / 2


def test_a_word_among_amounts_is_refused_like_one_among_numbers(look):
    values = ["far" if i % 8 == 0 else f"{i} km" for i in range(60)]
    (error,) = look(csv(values, header="way,size,label")).errors
    assert (error.code, "'far'" in error.message) == ("mixed_types", True)


def test_a_letter_for_thousands_is_no_unit(look):
    looked = look(csv([f"{i}.2k" for i in range(60)], header="way,size,label"))
    assert looked.uses()["way"] == "ignored"


def test_amounts_in_different_units_are_not_mixed(look):
    values = [f"${i}" if i % 2 else f"€{i}" for i in range(60)]
    looked = look(csv(values, header="price,size,label"))
    assert looked.uses()["price"] == "ignored"


def test_a_target_with_a_unit_is_a_number_and_classes_keep_theirs(look):
    lines = [f"{i * 0.37:.2f},{i % 7},${i * 3 + 1}.5" for i in range(60)]
    assert look("\n".join(["x,z,price", *lines])).report.task == "tabular-regression"
    lines = [f"{i * 0.37:.2f},{i % 7},{(5, 10)[i % 2]}%" for i in range(60)]
    assert look("\n".join(["x,z,rate", *lines])).index.classes == ["10%", "5%"]


def test_numbers_with_leading_zeros_are_codes(look):
    codes = ["01234", "94103", "00501"]
    content = csv([codes[i % 3] for i in range(60)], header="zip,size,label")
    looked = look(content)
    assert looked.uses()["zip"] == "categorical"
    assert set(looked.index.columns[0].categories) == set(codes)
    assert look(content, columns={"zip": "numeric"}).uses()["zip"] == "numeric"


def test_decimals_below_one_are_not_codes(look):
    looked = look(csv([f"0.{i:02}" for i in range(60)], header="share,size,label"))
    assert looked.uses()["share"] == "numeric"


@pytest.mark.parametrize(
    ("write", "advice"),
    [
        (lambda i: f"({i},000)" if i % 3 else f"{i},500", "write -1000 instead of (1,000)"),
        (lambda i: f"($1,{100 + i})" if i % 2 else f"$2,{100 + i}", "write -1000"),
        (lambda i: f"{i + 1}.2k" if i % 2 else str(i), "write 1200 instead of 1.2k"),
        (lambda i: f"20{10 + i % 7}-{1 + i % 12:02}", "write 2023-12-01 instead of 2023-12"),
        (
            lambda i: f"{1 + i % 20}{' yrs' if i % 3 == 0 else ''}",
            "numbers with the unit 'yrs', which are not read as numbers; write 1 instead of 1 yrs",
        ),
        (
            lambda i: f"{1 + i % 20} {'km' if i % 3 else 'm'}",
            "numbers with 2 units (40 like '2 km', 20 like '1 m'), which are not read as",
        ),
    ],
)
def test_numbers_and_dates_in_other_forms_stay_as_they_are_with_advice(look, write, advice):
    looked = look(csv([write(i) for i in range(60)], header="sold,size,label"))
    (note,) = (note for note in looked.report.notes if advice in note)
    assert looked.uses()["sold"] in ("categorical", "ignored")
    assert ("column=sold=ignored" in note) == (looked.uses()["sold"] == "categorical")


def test_a_column_of_many_amounts_with_a_unit_is_left_out_for_this_reason(look):
    values = [f"{i}.5 {'km' if i % 2 else 'm'}" for i in range(60)]
    looked = look(csv(values, header="way,size,label"))
    (way,) = (column for column in looked.report.columns if column.name == "way")
    assert (way.type, way.note) == (
        "ignored",
        "it has numbers with a unit, which are not read as numbers",
    )


def test_columns_with_units_share_a_note(look):
    rows = [f"{1 + i % 9}.5 km,{20 + i % 7}yrs,{i % 5},{'ab'[i % 2]}" for i in range(60)]
    looked = look("\n".join(["way,age,size,label", *rows]))
    (note,) = (note for note in looked.report.notes if "unit" in note)
    assert note == (
        "2 columns have numbers with a unit, which is left out: way (km), age (yrs); to change it: "
        "column=way=categorical"
    )


def test_columns_with_several_units_share_a_note(look):
    rows = [
        f"{1 + i % 9}.5 {('km', 'm')[i // 9 % 2]},{20 + i % 7}{('yrs', 'days')[i // 7 % 2]},"
        f"{i % 5},{'ab'[i % 2]}"
        for i in range(60)
    ]
    looked = look("\n".join(["way,age,size,label", *rows]))
    (note,) = (note for note in looked.report.notes if "unit" in note)
    assert note == (
        "2 columns have numbers with a unit, which are not read as numbers: way (write 1.5 instead "
        "of 1.5 km), age (write 20 instead of 20yrs); as they are, the columns are used as "
        "categories; to leave them out: column=way=ignored column=age=ignored"
    )


def test_a_few_amounts_in_parentheses_among_numbers_are_refused_with_advice(look):
    values = [f"({i})" if i % 8 == 0 else str(3 * i) for i in range(60)]
    (error,) = look(csv(values, header="profit,size,label")).errors
    assert "it has amounts in parentheses" in error.message
    assert "write -1000 instead of (1,000)" in error.message


def test_names_with_digits_get_no_advice(look):
    for write in (
        lambda i: f"{i % 9}{'ABCDEF'[i % 6]}",
        lambda i: f"K-{i % 5}",
        lambda i: f"{i % 9} Main Street",
        lambda i: "ab"[i % 2],
    ):
        looked = look(csv([write(i) for i in range(60)], header="seat,size,label"))
        assert not any("write" in note for note in looked.report.notes)


def test_a_table_of_nothing_but_unread_forms_is_refused_with_advice(look):
    months = [f"20{10 + i // 12}-{1 + i % 12:02}" for i in range(60)]
    amounts = [f"({i + 1},100)" if i % 2 else f"{i + 1},100" for i in range(60)]
    rows = zip(months, amounts, strict=True)
    lines = [f'{month},"{amount}",{"ab"[i % 2]}' for i, (month, amount) in enumerate(rows)]
    (error,) = look("\n".join(["month,amount,label", *lines])).errors
    assert error.code == "no_features"
    assert "month has months without a day" in error.message
    assert "amount has amounts in parentheses" in error.message


@pytest.mark.parametrize("num_words", [1, 4])
def test_dates_with_a_few_words_are_named_with_the_words(look, num_words):
    def write(i):
        return f"unknown {i % num_words}" if i % 9 == 0 else f"{1 + i % 28:02}.{1 + i % 12:02}.2024"

    content = csv([write(i) for i in range(400)], header="sold,size,label")
    looked = look(content)
    (note,) = (note for note in looked.report.notes if "has dates" in note)
    assert "but 45 of 400 values are not dates (the most frequent is 'unknown 0')" in note
    if num_words > 3:
        assert note.endswith("; correct them, or leave these fields empty")
        return
    assert note.endswith("list all words that mean a missing value (missing='unknown 0')")
    assert looked.uses()["sold"] != "numeric"
    assert look(content, missing=["unknown 0"]).uses()["sold"] == "ignored"


def test_names_that_contain_a_date_now_and_then_are_not_called_dates(look):
    values = ["2024-01-31" if i % 3 == 0 else f"batch {i % 7}" for i in range(60)]
    looked = look(csv(values, header="batch,size,label"))
    assert not any("has dates" in note for note in looked.report.notes)


@pytest.mark.parametrize(
    ("num_wrong", "words"), [(1, "1 value is not a date and counts"), (2, "2 values are not dates")]
)
def test_a_date_that_does_not_exist_is_named_although_the_others_are_read(look, num_wrong, words):
    def write(i):
        return "31.02.2021" if i < num_wrong else f"{1 + i % 28:02}.{1 + i % 12:02}.2021"

    looked = look(csv([write(i) for i in range(400)], header="bought,size,label"))
    (note,) = (note for note in looked.report.notes if "has dates" in note)
    assert words in note
    assert note.endswith("as missing, such as '31.02.2021'")
