"""Columns that have the same value in nearly every row."""

import numpy as np
import pytest

NUM = 6000
RNG = np.random.default_rng(0)
X = RNG.normal(size=NUM).round(3)
PRICE = (3 * X + RNG.normal(size=NUM)).round(3)


def csv(**columns):
    rows = zip(*columns.values(), strict=True)
    return "\n".join(",".join(map(str, row)) for row in [tuple(columns), *rows])


def rare(num, *, usual="0", other="1"):
    """Return a column with `num` other values, evenly spaced."""
    values = np.full(NUM, usual, object)
    values[:: NUM // num] = other
    return values


@pytest.mark.parametrize(
    "column",
    [rare(1), rare(30), rare(30, other="7.5"), rare(30, usual="no", other="yes"),
     rare(25, usual="NA", other="3")],
)  # fmt: skip
def test_a_nearly_constant_column_is_ignored_with_a_note(look, column):
    looked = look(csv(x=X, flag=column, price=PRICE), target="price")
    assert looked.uses() == {"x": "numeric", "flag": "ignored", "price": "target"}
    (note,) = [note for note in looked.report.notes if "99.5" in note]
    assert note.startswith("column flag is ignored")
    assert "column=flag=numeric" in note


def test_the_owner_can_bring_it_back(look):
    looked = look(csv(x=X, flag=rare(1), price=PRICE), target="price", columns={"flag": "numeric"})
    assert looked.uses()["flag"] == "numeric"


def test_it_is_used_if_its_rare_rows_clearly_have_other_values(look):
    flag = rare(30)
    looked = look(csv(x=X, flag=flag, price=PRICE + 9.0 * (flag == "1")), target="price")
    assert looked.uses()["flag"] == "numeric"
    few = rare(10)
    looked = look(csv(x=X, flag=few, price=PRICE + 9.0 * (few == "1")), target="price")
    assert looked.uses()["flag"] == "ignored"


def test_it_is_used_if_its_rare_rows_are_often_of_a_rare_class(look):
    flag = rare(30)
    fraud = (RNG.random(NUM) < 0.01) | ((flag == "1") & (RNG.random(NUM) < 0.4))
    looked = look(csv(x=X, flag=flag, fraud=np.where(fraud, "yes", "no")), target="fraud")
    assert looked.uses()["flag"] == "numeric"
    honest = np.where(RNG.random(NUM) < 0.3, "yes", "no")
    assert look(csv(x=X, flag=flag, fraud=honest), target="fraud").uses()["flag"] == "ignored"


def test_a_column_with_fewer_equal_values_is_used(look):
    assert look(csv(x=X, flag=rare(40), price=PRICE), target="price").uses()["flag"] == "numeric"


def test_it_is_used_if_the_table_has_no_other_column(look):
    looked = look(csv(flag=rare(30), price=PRICE), target="price")
    assert looked.errors == []
    assert looked.uses()["flag"] == "numeric"
