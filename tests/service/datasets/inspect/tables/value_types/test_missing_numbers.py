"""Numbers such as -99 that may mean no value."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

GENERATOR = np.random.default_rng(0)
AGES = GENERATOR.integers(18, 90, 400).astype(float)
TEMPERATURES = GENERATOR.normal(10, 8, 400)
AMOUNTS = GENERATOR.exponential(1000, 400)
ANSWERS = GENERATOR.integers(1, 6, 400).astype(float)
DISTANCES = GENERATOR.exponential(20, 400).round()
WAITS = GENERATOR.integers(1, 60, 400).astype(float)


def warn(looked):
    return [one.message for one in looked.report.warnings if one.code == "codes_for_missing"]


def table(values, *, others=None):
    others = GENERATOR.normal(size=len(values)) if others is None else others
    rows = zip(values, others, ["a", "b"] * len(values), strict=False)
    return "\n".join(["x,other,label", *(f"{x},{other},{label}" for x, other, label in rows)])


def mark(values, number, *, every=40):
    marked = values.copy()
    marked[::every] = number
    return marked


@pytest.mark.parametrize(
    ("values", "number"),
    [(AGES, -99), (AGES, 999), (TEMPERATURES, -99), (TEMPERATURES, -9999), (AMOUNTS, -999),
     (AMOUNTS, 99999), (ANSWERS, 99), (AMOUNTS, -1), (WAITS, -1), (WAITS, 999)],
)  # fmt: skip
def test_a_number_that_may_mean_no_value_is_named_with_the_option(look, values, number):
    others = ["NA", *GENERATOR.normal(size=399)]
    content = table(mark(values, number), others=others)
    looked = look(content, target="label")
    (warning,) = warn(looked)
    assert warning.startswith(
        f"10 of 400 values of column x are exactly {number}; if this means no"
    )
    assert warning.endswith(f"push again with target=label missing={number} missing=NA")
    again = look(content, target="label", missing=[str(number), "NA"])
    assert not warn(again)
    assert {c.name: c.num_missing for c in again.report.columns}["x"] == 10


@pytest.mark.parametrize(
    "values",
    [
        AGES,
        TEMPERATURES,
        AMOUNTS,
        mark(AGES, 99),  # an age that is near to the others
        mark(AMOUNTS, 999),  # an amount between others
        mark(AGES, -99, every=399),  # too few
        mark(np.zeros(400), 99, every=2),  # two codes
        np.arange(400) % 100 + 0.0,
        mark(ANSWERS, -1),  # may be a rating
        np.arange(400) % 3 - 1.0,  # flags
        np.arange(400) % 5 - 1.0,  # levels
        np.maximum(DISTANCES - 1, -1),  # the smallest of many numbers around 0
        np.maximum(TEMPERATURES.round(), -1),
        np.minimum(AGES + 15, 99),
    ],
)
def test_usual_numbers_are_not_named(look, values):
    looked = look(table(values), target="label")
    assert not warn(looked)


def test_a_number_next_to_the_others_is_named_if_it_is_far_more_frequent(look):
    (warning,) = warn(look(table(mark(AGES, 99, every=8)), target="label"))
    assert warning.startswith("50 of 400 values of column x are exactly 99; if this")


def test_another_column_that_has_the_number_is_named(look):
    others = GENERATOR.normal(size=400).round(2)
    others[7] = -99
    (warning,) = warn(look(table(mark(AGES, -99), others=others), target="label"))
    assert "means no value in all columns (column other has such values, too), push" in warning


def test_skipped_rows_do_not_count(look):
    rows = table(mark(AGES, -99)).splitlines()
    rows[1] = rows[1].rpartition(",")[0] + ","
    (warning,) = warn(look("\n".join(rows), target="label", skip_bad=1))
    assert warning.startswith("9 of 399 values of column x are exactly -99")


@pytest.mark.parametrize("load", [load_iris, load_breast_cancer, load_wine, load_diabetes])
def test_no_column_of_usual_tables_is_noted(look, load):
    data = load()
    rows = [[*some, label] for some, label in zip(data.data, data.target, strict=True)]
    header = ",".join([*(f"c{place}" for place in range(data.data.shape[1])), "y"])
    content = "\n".join([header, *(",".join(map(str, row)) for row in rows)])
    assert not warn(look(content, target="y"))
