"""Warnings about tables and texts, from the upload to the report."""

import os
import re

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from redkiln.tables import TableOptions
from redkiln.views.dataset import UNUSED_COLUMNS
from service.datasets.inspect.__main__ import inspect
from service.datasets.inspect.order import Order
from service.datasets.inspect.quality import tables
from service.datasets.inspect.quality.copies import Samples, check_equal_features

GENERATOR = np.random.default_rng(0)
A, B = GENERATOR.normal(size=(2, 400))
NAMES = np.where(A + GENERATOR.normal(size=400) > 0, "yes", "no")


@pytest.fixture
def check(tmp_path):
    def check(content, **options):
        (tmp_path / "table.csv").write_text(content)
        order = Order(
            kind="archive",
            path=str(tmp_path / "table.csv"),
            parent_pid=os.getpid(),
            options=TableOptions(**options),
        )
        report = inspect(order, work_dir=tmp_path)
        assert report.errors == []
        return report

    return check


def codes_of(report):
    return {warning.code: warning.message for warning in report.warnings}


def csv(**columns):
    rows = zip(*columns.values(), strict=True)
    return "\n".join(",".join(map(str, row)) for row in [tuple(columns), *rows])


def test_a_clean_table_has_no_warnings(check):
    assert codes_of(check(csv(a=A, b=B, label=NAMES))) == {}


def test_test_rows_that_are_copies_of_training_rows_are_counted(check):
    split = ["train"] * 300 + ["test"] * 100
    a, b, names = A.copy(), B.copy(), NAMES.copy()
    a[300:320], b[300:320], names[300:320] = a[:20], b[:20], names[:20]
    found = codes_of(check(csv(a=a, b=b, label=names, split=split), target="label"))
    assert set(found) == {"copies_across_splits"}
    assert "20 of 100 test rows are equal to training rows" in found["copies_across_splits"]


def test_a_copied_row_is_named_by_columns_of_the_file_before_derived_ones(check):
    days = [f"2024-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(400)]
    split = ["train"] * 300 + ["test"] * 100
    a, b, names = A.copy(), B.copy(), NAMES.copy()
    a[300:], b[300:], names[300:], days[300:] = a[:100], b[:100], names[:100], days[:100]
    found = codes_of(check(csv(day=days, a=a, b=b, label=names, split=split), target="label"))
    assert re.search(r"with a=\S+, b=\S+, day\.", found["copies_across_splits"])


def test_rows_that_differ_in_columns_that_are_not_used_are_no_copies(check):
    split = ["train"] * 300 + ["test"] * 100
    a, b, names = A.copy(), B.copy(), NAMES.copy()
    a[300:304], b[300:304], names[300:304] = a[:4], b[:4], names[:4]
    a[50], b[50], names[50] = a[51], b[51], names[51]
    ids, owner = np.arange(400), np.array([f"Owner {n} of {n * n}" for n in range(400)])
    owner[300:302] = owner[:2]
    content = csv(id=ids, owner=owner, a=a, b=b, label=names, split=split)
    report = check(content, target="label")
    found = codes_of(report)
    assert set(found) == {"dropped_columns", "copies_across_splits", "equal_features_across_splits"}
    assert "2 of 100 test rows are equal to training rows (" in found["copies_across_splits"]
    told = found["equal_features_across_splits"]
    assert "2 of 100 test rows are equal to training rows in all columns that are used (" in told
    assert "They differ only in columns that are not used: owner. They are different rows" in told
    assert "Remove" not in told
    counts = {warning.code: warning.count for warning in report.warnings}
    assert (counts["copies_across_splits"], counts["equal_features_across_splits"]) == (2, None)


def test_a_column_that_only_numbers_were_derived_from_is_not_called_unused():
    numbers = np.array([0, 1, 2, 0])
    samples = Samples(
        "rows", np.array([False, False, False, True]), None, lambda row: f"line {row}"
    )
    (found,) = check_equal_features(
        samples, np.arange(4), numbers, unused={"day": np.arange(4)}, origins={"day"}
    )
    assert "not used: day (only numbers derived from it are used). They are" in found.message


def test_rows_that_only_differ_in_columns_that_are_not_used_may_have_contrary_classes(check):
    a, b, names = A.copy(), B.copy(), NAMES.copy()
    a[1], b[1], names[0], names[1] = a[0], b[0], "no", "yes"
    owner = [f"Owner {n} of {n * n}" for n in range(400)]
    assert "two_classes" in codes_of(check(csv(owner=owner, a=a, b=b, label=names)))


def test_copies_in_an_own_validation_split_are_named_as_such(check):
    split = ["train"] * 300 + ["valid"] * 50 + ["test"] * 50
    a, b, names = A.copy(), B.copy(), NAMES.copy()
    a[300:310], b[300:310], names[300:310] = a[:10], b[:10], names[:10]
    found = codes_of(check(csv(a=a, b=b, label=names, split=split), target="label"))
    assert set(found) == {"copies_in_validation"}
    assert "10 of 50 validation rows are equal to training rows" in found["copies_in_validation"]


def test_equal_rows_are_usual_in_a_table_of_few_values(check):
    found = check(csv(a=(A > 0).astype(int), b=(B > 0).astype(int), label=NAMES))
    assert codes_of(found) == {}


def test_rows_with_equal_features_and_different_classes_are_named(check):
    a, b, names = A.copy(), B.copy(), NAMES.copy()
    a[1], b[1], names[0], names[1] = a[0], b[0], "no", "yes"
    found = codes_of(check(csv(a=a, b=b, label=names)))["two_classes"]
    assert "2 rows are equal to rows of another class (line 2 with a=" in found
    assert ": no and line 3 with a=" in found
    assert ": yes); correct the wrong classes, or add columns" in found


def test_columns_that_predict_the_target_alone_are_named(check):
    leak = np.where(NAMES == "yes", "paid", "open")
    found = codes_of(check(csv(a=A, b=B, state=leak, label=NAMES)))
    assert set(found) == {"leaking_columns"}
    assert "column=state=ignored" in found["leaking_columns"]
    value = 3 * A + B
    found = codes_of(check(csv(a=A, b=B, cents=100 * value, price=value), target="price"))
    assert "column cents predicts" in found["leaking_columns"]


def test_a_column_that_is_right_for_nearly_all_rows_is_named_if_the_others_say_far_less(check):
    yes, noise = GENERATOR.random(400) < 0.52, {f"n{i}": GENERATOR.random(400) for i in range(5)}
    names = np.where(yes, "yes", "no")
    state = np.where(yes ^ (np.arange(400) % 57 == 0), "paid", "open")
    found = codes_of(check(csv(**noise, state=state, label=names), target="label"))
    assert set(found) == {"leaking_columns"}
    told = found["leaking_columns"]
    assert "column state alone predicts " in told
    assert "is it known when you predict?" in told
    assert told.endswith("column=state=ignored")
    weaker = np.where(yes ^ (np.arange(400) % 5 == 0), "paid", "open")
    found = check(csv(**noise, state=state, other=weaker, label=names), target="label")
    assert codes_of(found) == {}
    price = 3 * A + B
    near = price + price.std() * 0.085 * GENERATOR.normal(size=400)
    found = codes_of(check(csv(**noise, near=near, price=price), target="price"))
    assert "column near alone explains 99." in found["leaking_columns"]


def cancel(share, seed=0):
    """Return the state of 1,500 orders, and which of the cancelled ones have a refund."""
    rng = np.random.default_rng(seed)
    states = np.where(rng.random(1500) < 0.1, "cancelled", "delivered")
    return states, (states == "cancelled") & (rng.random(1500) < share)


@pytest.mark.parametrize("share", [0.2, 0.8, 0.94, 1.0])
def test_a_column_that_is_filled_for_one_class_only_is_named(check, share):
    states, is_refunded = cancel(share)
    days = [f"2026-{1 + n % 12:02}-{1 + n % 28:02}" for n in range(1500)]
    reasons = [f"the customer {n} changed the order {n % 7} times" for n in range(1500)]
    numbers, told = GENERATOR.normal(size=1500), f"in {is_refunded.sum()} rows, all of which are"
    for name, values in {"refund_date": days, "refund": numbers, "why": reasons}.items():
        filled = np.where(is_refunded, values, "")
        content = csv(a=GENERATOR.normal(size=1500), day=days, **{name: filled}, state=states)
        found = codes_of(check(content, target="state"))
        assert f"column {name} is filled {told} `cancelled`; if" in found["leaking_columns"]
        assert found["leaking_columns"].endswith(f"column={name}=ignored")


def test_a_column_that_is_empty_for_one_class_only_is_named(check):
    states, is_empty = cancel(0.8)
    is_empty[np.flatnonzero(states == "delivered")[0]] = True
    filled = np.where(is_empty, "", GENERATOR.choice(["post", "van"], 1500))
    found = codes_of(check(csv(a=GENERATOR.normal(size=1500), by=filled, state=states)))
    num = is_empty.sum()
    assert f"column by is empty in {num} rows, {num - 1} of which" in found["leaking_columns"]


def test_gaps_that_are_only_more_frequent_in_a_class_are_not_said_to_leak(check):
    states, _ = cancel(0)
    for rates in ((0.1, 0.3), (0.3, 0.1), (0.0, 0.5), (0.97, 0.8), (0.9, 0.9)):
        is_empty = GENERATOR.random(1500) < np.where(states == "cancelled", *rates)
        filled = np.where(is_empty, "", GENERATOR.normal(size=1500))
        content = csv(a=GENERATOR.normal(size=1500), b=filled, state=states)
        assert "leaking_columns" not in codes_of(check(content)), rates


@pytest.mark.parametrize("load", [load_iris, load_breast_cancer, load_wine, load_diabetes])
def test_no_column_of_usual_tables_is_said_to_leak(check, load):
    data = load()
    values = {name.replace(" ", "_"): data.data[:, i] for i, name in enumerate(data.feature_names)}
    names = data.target if load is load_diabetes else [f"c{label}" for label in data.target]
    assert "leaking_columns" not in codes_of(check(csv(**values, y=names), target="y"))


def test_dropped_columns_are_named_with_the_reason(check):
    rare = ["1"] + ["0"] * 399
    found = codes_of(check(csv(a=A, b=B, same=["x"] * 400, rare=rare, label=NAMES)))
    assert set(found) == {"dropped_columns"}
    assert "same: it has the same value in every row" in found["dropped_columns"]
    assert "rare: at least 99.5 % of the rows have the same value" in found["dropped_columns"]
    assert (
        "; to use one of them, push the table again with column=NAME=categorical"
        in (found["dropped_columns"])
    )
    found = codes_of(check(csv(a=A, b=B, same=["x"] * 400, label=NAMES)))
    assert (
        "; to use same, push the table again with column=same=categorical"
        in (found["dropped_columns"])
    )
    many = {f"same{number}": ["x"] * 400 for number in range(8)}
    found = codes_of(check(csv(a=A, b=B, **many, label=NAMES)))["dropped_columns"]
    assert found.startswith(UNUSED_COLUMNS)
    assert "same4: " in found
    assert "same5" not in found
    assert "; and 3 more; to use one of them" in found
    asked = check(csv(a=A, b=B, label=NAMES), columns={"b": "ignored"})
    assert codes_of(asked) == {}


def test_a_column_of_dates_is_not_called_dropped(check):
    days = [f"2026-{1 + n % 12:02}-{1 + n % 28:02}" for n in range(400)]
    report = check(csv(day=days, a=A, b=B, label=NAMES))
    assert "day.month" in {column.name for column in report.columns}
    assert "dropped_columns" not in codes_of(report)


def test_a_column_that_numbers_the_rows_is_used_where_it_predicts_an_amount(check):
    days = np.arange(400)
    report = check(csv(day=days, a=A, price=0.1 * days + B), target="price")
    uses = {column.name: column.type for column in report.columns}
    assert uses["day"] == "numeric"
    assert any("day=ignored" in note for note in report.notes)
    useless = check(csv(day=days, a=A, price=A + B), target="price")
    assert "day: it only numbers the rows" in codes_of(useless)["dropped_columns"]
    named = check(csv(id=days, a=A, price=0.1 * days + B), target="price")
    assert {c.name: c.type for c in named.columns}["id"] == "ignored"


def test_texts_are_compared_without_case_spaces_and_punctuation(check):
    texts = [f"the film number {n} was good enough for me" for n in range(40)]
    names = ["good", "bad"] * 20
    texts[38], texts[1], names[1] = "The film,  number 0 was GOOD enough for me!", texts[0], "bad"
    split = ["train"] * 30 + ["test"] * 10
    content = csv(text=[f'"{text}"' for text in texts], label=names, split=split)
    found = codes_of(check(content, text="text", target="label"))
    assert set(found) == {"copies_across_splits", "two_classes"}
    assert "1 of 10 test texts is equal, apart from case, spaces" in found["copies_across_splits"]
    copy, original = "'The film,  number 0 was GOOD enough for ...'", "'the film number 0 was good"
    assert f"(line 40 {copy} and line 2 {original}" in found["copies_across_splits"]
    assert "for me': bad and line 2 'the film number 0" in found["two_classes"]


def test_texts_that_differ_late_are_shown_from_before_their_difference(check):
    words = [" ".join(GENERATOR.choice([f"w{n}" for n in range(300)], 30)) for _ in range(40)]
    words[39] = f"{words[0]} in May"
    split = ["train"] * 30 + ["test"] * 10
    content = csv(text=words, label=["good", "bad"] * 20, split=split)
    (warning,) = check(content, text="text", target="label").warnings
    assert warning.pairs == [
        (f"line 41 '...{words[0][-15:]} in May'", f"line 2 '...{words[0][-15:]}'")
    ]


def test_nearly_equal_texts_and_rows_across_splits_are_named(check):
    words = [" ".join(GENERATOR.choice([f"w{n}" for n in range(300)], 15)) for _ in range(40)]
    words[39] = f"{words[0]} indeed"
    split = ["train"] * 30 + ["test"] * 10
    content = csv(text=words, label=["good", "bad"] * 20, split=split)
    found = codes_of(check(content, text="text", target="label"))
    assert set(found) == {"near_copies_across_splits"}
    assert "1 of 10 test texts is nearly equal to a training" in found["near_copies_across_splits"]
    a, b, c = A.copy(), B.copy(), A * B
    c[399] = c[0]
    a[399], b[399] = a[0] + 1e-6, b[0]
    splits = ["train"] * 300 + ["test"] * 100
    found = codes_of(check(csv(a=a, b=b, c=c, label=NAMES, split=splits), target="label"))
    assert "1 of 100 test rows is equal, after rounding, to" in found["near_copies_across_splits"]
    owner = [f"Owner {number} of {number * number}" for number in range(400)]
    content = csv(owner=owner, a=a, b=b, c=c, label=NAMES, split=splits)
    assert set(codes_of(check(content, target="label"))) == {"dropped_columns"}


def test_a_table_that_is_too_large_to_be_read_again_says_so(check, monkeypatch):
    monkeypatch.setattr(tables, "MOST_BYTES", 100)
    assert set(codes_of(check(csv(a=A, b=B, label=NAMES)))) == {"not_checked"}


def test_options_of_columns_with_spaces_are_quoted_for_a_shell(check):
    leak = np.where(NAMES == "yes", "paid", "open")
    found = codes_of(check(csv(**{"a": A, "b": B, "paid on": leak, "label": NAMES})))
    assert found["leaking_columns"].endswith("column='paid on=ignored'")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"target": "label", "missing": ["n/a", "no."], "skip_bad": 2},
         "target=label missing=n/a missing='no.' skip_bad=2 column=paid=ignored"),
        ({"target": "label", "missing": [""], "header": True, "delimiter": "tab"},
         "target=label header=true delimiter=tab missing='' column=paid=ignored"),
        ({"columns": {"b": "categorical", "paid": "categorical"}, "classes": ["yes", "no"]},
         "column=paid=ignored column=b=categorical class=yes class=no"),
    ],
)  # fmt: skip
def test_advice_to_train_without_a_column_repeats_the_options_of_the_push(check, options, told):
    leak = np.where(NAMES == "yes", "paid", "open")
    content = csv(a=A, b=(B * 3).round(), paid=leak, label=NAMES)
    if "delimiter" in options:
        content = content.replace(",", "\t")
    found = codes_of(check(content, **options))["leaking_columns"]
    assert found.endswith(f"push the table again to train without it: {told}")


def test_advice_repeats_the_options_of_the_push_for_other_columns_too(check):
    content = csv(same=["x"] * 400, a=A, b=B, label=NAMES)
    found = codes_of(check(content, target="label", missing=["n/a"]))["dropped_columns"]
    assert "again with target=label missing=n/a column=same=categorical, or with" in found
    many = {f"c{number}": "numeric" for number in range(30)}
    content = csv(same=["x"] * 400, **dict.fromkeys(many, A), label=NAMES)
    found = codes_of(check(content, columns=many))["dropped_columns"]
    assert "with column=same=categorical column=c0=numeric " in found
    assert "column=c18=numeric ..., or with" in found


def test_names_that_differ_only_in_case_or_blanks_are_listed(check):
    city = ["Oslo", "oslo ", "Bergen", "Å lesund", "Ålesund", "A+", "A-", "A"] * 50
    names = np.where(np.arange(400) % 9 == 0, "Yes", NAMES)
    found = codes_of(check(csv(a=A, b=B, city=city, label=names), target="label"))
    assert set(found) == {"spellings"}
    told = found["spellings"]
    assert "classes 'Yes', 'yes'; column city: " in told
    assert "'Oslo', 'oslo'" in told or "'oslo', 'Oslo'" in told
    assert "'Å lesund', 'Ålesund'" in told or "'Ålesund', 'Å lesund'" in told
    assert "A+" not in told


def test_equal_rows_and_texts_stay_together_in_a_split_that_is_drawn(check):
    again = np.r_[np.arange(400), np.arange(150)]
    found = codes_of(check(csv(a=A[again], b=B[again], label=NAMES[again]), target="label"))
    assert set(found) == {"copies_in_training", "copies_in_test"}
    texts = [f"message {number} of {word}" for number in range(40) for word in ("ore", "sea")]
    rows = [(text, text[-3:]) for text in texts] + [(text.upper(), text[-3:]) for text in texts]
    written = "\n".join(["text,label", *(",".join(row) for row in rows)])
    found = codes_of(check(written, task="text-classification", text="text", target="label"))
    assert "copies_across_splits" not in found
