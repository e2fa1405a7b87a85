from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

from redkiln.dates import derive_from_date
from redkiln.tables import Derived
from worker.tasks.tabular.original_row import open_columns, open_rows
from worker.tasks.tabular.snippet import example_row, usage_code
from worker.trainer.tables.table import load_table


@pytest.fixture
def make_table(write_table):
    """Loads a table of columns in which each of two rows has the same value."""

    def make(columns, *, origins=None, **options):
        values = {name: [value, value] for name, value in columns.items()}
        table = load_table(
            write_table(
                columns=values, targets=[0, 1], task="tabular-classification", num_test=1, **options
            )
        )
        for column in table.index.columns:
            column.derived = (origins or {}).get(column.name)
        return table

    return make


def cells_of(table):
    return {name: read(1) for name, read in open_columns(table).items()}


def test_a_row_shows_its_columns_in_the_order_of_the_file(make_table):
    table = make_table(
        {"rate": 0.1, "job": 1, "age": 42.0, "gap": np.nan, "blank": None},
        categories={"job": ["cook", "nurse"], "blank": ["x"]},
    )
    assert cells_of(table) == {"rate": 0.1, "job": "nurse", "age": 42, "gap": None, "blank": None}
    assert open_rows(table)([1]) == ["rate=0.1, job=nurse, age=42, gap=?, blank=?"]


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("2024-03-05", ["hour", "hour_sin", "hour_cos"]),
        ("2024-03-05", []),
        ("2024-03-05 23:59", []),
        ("1969-12-31 00:01:07", []),
        ("2024-03-05 06:00", ["hour"]),
    ],
)
def test_a_date_is_shown_instead_of_the_numbers_that_were_derived_from_it(
    make_table, text, left_out
):
    parts = derive_from_date(datetime.fromisoformat(text))
    parts = {name: value for name, value in parts.items() if name not in left_out}
    numbers = {f"sold.{name}": value for name, value in parts.items()}
    origins = {f"sold.{name}": Derived(column="sold", part=name) for name in parts}
    origins["late"] = Derived(column="sold", part="days_since", since="made")
    table = make_table({"a": 1.0, **numbers, "late": 3.0, "b": 2.0}, origins=origins)
    assert list(cells_of(table).items()) == [("a", 1), ("sold", text), ("b", 2)]


def test_a_missing_date_is_a_gap(make_table):
    origin = Derived(column="sold", part="ordinal")
    table = make_table({"sold.ordinal": np.nan}, origins={"sold.ordinal": origin})
    assert cells_of(table) == {"sold": None}


def test_prose_is_shown_by_its_known_words(make_table):
    origins = {
        f"about {word}": Derived(column="about", part="word", word=word)
        for word in ("quiet", "loud", "garden")
    }
    table = make_table(
        {"about quiet": 1.0, "about loud": 0.0, "about garden": 1.0}, origins=origins
    )
    assert cells_of(table) == {"about": "quiet garden"}


def test_a_row_is_named_by_its_place_in_the_file_if_that_is_known(make_table):
    table = replace(make_table({"a": 1.0}), places=pa.chunked_array([[None, "line 7"]]))
    assert open_rows(table)([0, 1]) == ["a=1", "line 7: a=1"]


def test_the_reports_example_has_every_column(make_table):
    table = make_table({f"c{number}": float(number) for number in range(30)})
    assert example_row(table) == {f"c{number}": number for number in range(30)}
    assert "}  # as in csv.DictReader; absent columns count as missing\n" in usage_code(table)


def test_texts_of_wide_rows_say_what_they_leave_out(make_table):
    table = make_table({f"c{number}": float(number) for number in range(41)})
    assert len(example_row(table)) == 30
    assert "}  # the first 30 of 41 columns, as in csv.DictReader; absent" in usage_code(table)
    (text,) = open_rows(table)([1])
    assert text.endswith("c28=28, c29=29, ...")
