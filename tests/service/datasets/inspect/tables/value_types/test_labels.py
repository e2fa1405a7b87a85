"""Cells with several labels, such as `css;java`."""

import random
import shlex

import numpy as np
import pytest

from redkiln.tables import LABELS, RANK, TARGET, split_table
from service.datasets.inspect.tables.value_types.labels import are_surely_sets, find_separator

TOPICS = ("css", "html", "java", "sql")


def make_posts(num=120, *, labels=None):
    """Return a CSV with a column of texts and one of labels; each label has its own word."""
    rng = random.Random(0)
    lines = ["text,tags"]
    for number in range(num):
        chosen = labels(number) if labels else rng.sample(TOPICS, rng.choice((1, 1, 2, 3)))
        words = " ".join(f"{name}{rng.randrange(9)} {name}" for name in chosen if name)
        lines.append(f"how do i write {words} number {number},{';'.join(chosen)}")
    return "\n".join(lines)


def read_labels(looked):
    index = looked.index
    lists = looked.table.column(LABELS).to_pylist()
    return [{index.classes[label] for label in some} for some in lists]


def test_each_row_has_all_of_its_labels(look):
    looked = look(make_posts(), labels_separator=";")
    assert looked.errors == []
    index = looked.index
    assert (index.task, index.format) == ("text-classification", 2)
    assert (index.classes, index.labels_separator) == (list(TOPICS), ";")
    texts = looked.table.column("text").to_pylist()
    for text, labels in zip(texts, read_labels(looked), strict=True):
        assert labels == {name for name in TOPICS if f" {name} " in text}


def test_spaces_empty_parts_and_repetitions_do_not_count(look):
    looked = look("x,tags\n" + "1.5, a ;b;;a;\n2.5,b\n3.7,c;\n4.1,a;c\n" * 5, labels_separator=";")
    assert looked.errors == []
    assert {frozenset(labels) for labels in read_labels(looked)} == {
        frozenset(some) for some in ("ab", "b", "c", "ac")
    }


def test_rows_are_split_by_their_rarest_label(look):
    looked = look(
        make_posts(
            200, labels=lambda i: ["css", "sql"] if i % 10 == 0 else ["css", "html"][: 1 + i % 2]
        ),
        labels_separator=";",
    )
    table, index = looked.table, looked.index
    rarest = [index.classes[label] for label in table.column(TARGET).to_pylist()]
    expected = [
        "sql" if "sql" in some else min(some, key="html css".index) for some in read_labels(looked)
    ]
    assert rarest == expected
    splits = split_table(
        table.column(TARGET).to_pylist(),
        table.column(RANK).to_pylist(),
        num_train=index.num_train,
        validation_fraction=0.1,
    )
    shares = {
        name: np.mean([rarest[row] == "sql" for row in rows]) for name, rows in splits.items()
    }
    assert shares == pytest.approx({"train": 0.1, "validation": 0.1, "test": 0.1}, abs=0.02)


def test_the_report_counts_rows_and_labels(look):
    report = look(
        make_posts(100, labels=lambda i: ["a", "b"][: 1 + i % 2]), labels_separator=";"
    ).report
    assert {split: list(counts) for split, counts in report.counts.items()} == {
        "train": ["rows"],
        "test": ["rows"],
    }
    counts = report.label_counts
    assert counts["train"]["a"] + counts["test"]["a"] == 100
    assert counts["train"]["b"] + counts["test"]["b"] == 50
    assert any("1.50 labels on average, at most 2" in note for note in report.notes)


@pytest.mark.parametrize("cell", ["", ";", " ; "])
def test_a_row_without_labels_is_named_with_what_to_do(look, cell):
    lines = make_posts(100).splitlines()
    lines[50] = f"a text without any label,{cell}"
    errors = look("\n".join(lines), labels_separator=";").errors
    assert errors[-1].path == "line 51"
    assert "such as `other`" in errors[0].message


def test_a_separator_that_no_cell_has_is_refused(look):
    looked = look(make_posts(100), labels_separator="|")
    assert "no_separator" in looked.codes
    assert "labels_separator=CHAR" in looked.errors[-1].message


def test_a_label_that_occurs_once_is_a_warning_and_stays_in_training(look):
    looked = look(make_posts(100, labels=lambda i: ["a", "b", "c"][: 3 if i == 7 else 1 + i % 2]),
                  labels_separator=";")  # fmt: skip
    assert looked.errors == []
    assert looked.report.label_counts["train"]["c"] == 1
    assert "c: 1" in next(w.message for w in looked.report.warnings if w.code == "few_samples")


def test_a_test_label_without_training_rows_is_an_error(look):
    lines = make_posts(60).splitlines()
    rows = [
        f"{line},{'test' if number % 5 == 0 else 'train'}" for number, line in enumerate(lines[1:])
    ]
    rows[10] = "a text about rust,css;rust,test"
    looked = look("\n".join(["text,tags,split", *rows]), labels_separator=";")
    assert looked.codes == ["unknown_test_class"]
    assert (looked.errors[0].path, "'rust'" in looked.errors[0].message) == ("line 12", True)


def test_a_label_that_is_not_listed_is_an_error(look):
    looked = look(make_posts(60), labels_separator=";", classes=["css", "html", "java"])
    assert looked.codes[0] == "bad_target"
    assert "not in the list of classes" in looked.errors[0].message


def test_copies_with_the_same_labels_are_not_contradictions(look):
    content = make_posts(60)
    copied = "\n".join(content.splitlines()[1:20])
    looked = look(f"{content}\n{copied}", labels_separator=";")
    codes = [warning.code for warning in looked.report.warnings]
    assert "copies_in_training" in codes
    assert "two_classes" not in codes


@pytest.mark.parametrize("mark", [";", ", "])
def test_a_table_of_lists_is_refused_with_the_options_for_both_readings(look, mark):
    lines = make_posts().replace(",", "\t").replace(";", mark)
    looked = look(lines)
    assert looked.codes == ["labels_not_split"]
    message = looked.errors[0].message
    assert "each value of the target tags is one class" in message
    assert f"push the table again with labels_separator={shlex.quote(mark.strip())}" in message
    assert looked.report.task == "text-classification"
    index = look(lines, labels_separator="none").index
    assert (index.format, index.labels_separator) == (1, None)
    assert f"css{mark}sql" in index.classes


def test_a_target_that_may_have_lists_is_a_warning(look):
    surnames, names = ["Smith", "Lee", "Poe", "Ng"], ["John", "Ann", "Bo"]
    people = [f"{surname}, {name}" for surname in surnames for name in names]
    lines = ["a\tauthor", *(f"{number}.5\t{people[number % 12]}" for number in range(120))]
    looked = look("\n".join(lines))
    assert looked.errors == []
    (warning,) = [found for found in looked.report.warnings if found.code == "labels_not_split"]
    assert "labels_separator=," in warning.message


def test_too_many_sets_of_labels_are_refused_with_the_option(look):
    looked = look(make_posts(60, labels=lambda i: [f"t{i % 9}", f"t{i % 7}", f"t{i % 5}"]))
    assert looked.codes == ["too_many_classes"]
    assert "choose labels_separator=';', if" in looked.errors[0].message


@pytest.mark.parametrize(
    ("names", "separator"),
    [
        (["css", "java", "sql", "css;java", "java; sql"], ";"),
        (["a|b", "b|c", "a|c", "a"], "|"),
        (["Rome, Italy", "Milan, Italy", "Paris, France"], None),
        (["Smith, John", "Miller, Ann", "Lee, Bo"], None),
        (["yes", "no", "yes;no"], None),
        (["a", "b"], None),
    ],
)
def test_only_parts_that_recur_look_like_labels(names, separator):
    assert find_separator(names) == separator


@pytest.mark.parametrize(
    ("names", "separator", "is_sure"),
    [
        (["css", "html", "css;java", "java; html", "css;html", "java"], ";", True),
        (["a|b", "b|c", "a|c", "a|b|c"], "|", True),
        (["1;2", "2;3", "1;3", "1;2;3"], ";", True),
        ([f"{x}, {y}" for x in ("Smith", "Lee", "Poe") for y in ("John", "Ann", "Bo")], ",", False),
        ([f"{x}, {y}" for x in ("Salem", "Dover") for y in ("NY", "OR", "ME")], ",", False),
        ([f"{x}, {y}" for x in ("red", "blue", "black") for y in ("small", "large")], ",", False),
        (["1,2", "2,1", "1,1", "2,2", "3,1"], ",", False),
        (["css", "java", "sql", "html", "css;java", "java;sql"], ";", False),
        (["a;b", "b;a", "a", "b"], ";", False),
    ],
)
def test_classes_are_surely_sets_if_their_parts_recur_in_other_places(names, separator, is_sure):
    assert are_surely_sets(names, separator) is is_sure
