"""Advice on words for a missing value does not name a category of another column."""

import re

import pytest

from redkiln.advice.wording import as_arguments, as_options

DATES = [f"2024-0{i + 1}-0{i + 1}" for i in range(8)]


def write(ages, *, kinds=("none", "basic", "full"), dates=None, sizes=None):
    sizes = sizes or [str(i * 3 % 101) for i in range(len(ages))]
    dates = dates or ["2024-01-31"]
    rows = [
        f"{age},{kinds[i % len(kinds)]},{sizes[i]},{dates[i % len(dates)]},{'ab'[i % 2]}"
        for i, age in enumerate(ages)
    ]
    return "\n".join(["age,fee,size,sold,label", *rows])


def ages(other, *, every):
    return [other if i % every == 0 else str(18 + i * 7 % 60) for i in range(300)]


def advised(looked):
    """Return the advice on words, of an error, a warning or a note."""
    said = [one.message for one in (*looked.errors, *looked.report.warnings)]
    (advice,) = (one for one in (*said, *looked.report.notes) if re.search(r"missing=[^'W]", one))
    return advice


@pytest.mark.parametrize(("other", "every"), [("unknown", 13), ("-1", 9)])
def test_a_word_that_looks_like_a_category_is_left_out_and_named(look, other, every):
    content = write(ages(other, every=every))
    advice = advised(look(content))
    remark = "'none' of column fee is then a category; if it means no value, add missing=none)"
    assert re.search(rf"missing={other}[;( ]+{re.escape(remark)}", advice)
    again = look(content, missing=[other])
    assert again.errors == []
    (fee,) = (column for column in again.index.columns if column.name == "fee")
    assert fee.categories == ["basic", "full", "none"]
    assert f"--missing {other}" in as_options(advice)
    assert 'add missing=["none"])' in as_arguments(advice)


def test_several_categories_are_left_out(look):
    advice = advised(look(write(ages("unknown", every=13), kinds=("none", "NA", "full"))))
    assert (
        "(missing=unknown; 'none' of column fee, 'NA' of column fee are then categories; if they "
        "mean no value, add missing=none missing=NA)"
    ) in advice


def test_a_class_is_left_out(look):
    content = write(ages("unknown", every=13)).replace(",b\n", ",none\n").replace("none,", "low,")
    errors = look(content, target="label").errors
    (advice,) = (one.message for one in errors if one.code == "mixed_types")
    assert "(missing=unknown; 'none' of column label is then a category; if it" in advice


def test_a_rare_word_is_repeated(look):
    content = write(ages("unknown", every=13), kinds=("basic", "full") * 15 + ("none",))
    assert "(missing=unknown missing=none)" in advised(look(content))


@pytest.mark.parametrize("column", ["size", "sold"])
def test_a_word_that_columns_of_numbers_or_dates_need_is_repeated(look, column):
    others = {
        "size": {"sizes": [*(str(i % 97) for i in range(299)), "None"]},
        "sold": {"dates": [*DATES[:7], "None"]},
    }
    content = write(ages("unknown", every=13), **others[column])
    advice = advised(look(content))
    assert "(missing=unknown missing=none missing=None; 'none' of column fee still counts" in advice
    assert look(content, missing=["unknown", "none", "None"]).errors == []


def test_each_spelling_of_a_category_is_left_out(look):
    content = write(ages("unknown", every=13), kinds=("none", "None", "full", "basic"))
    assert "(missing=unknown; 'none' of column fee is then a category;" in advised(look(content))


def test_other_columns_with_the_category_are_counted(look):
    content = write(ages("unknown", every=13), dates=["none", "paid", "due"])
    assert "'none' of column fee and 1 more is then a category" in advised(look(content))


def test_words_of_a_column_of_dates_are_repeated(look):
    dates = [*DATES, "soon", "None"]
    advice = advised(look(write(ages("30", every=2), kinds=("basic", "full"), dates=dates)))
    assert advice.endswith("(missing=soon missing=None)")


def test_words_that_the_user_chose_are_repeated(look):
    content = write(ages("unknown", every=13))
    assert "(missing=unknown missing=none)" in advised(look(content, missing=["none"]))
