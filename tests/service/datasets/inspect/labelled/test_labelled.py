"""Images with a `labels.csv`."""

import os
import random

import pytest

from redkiln.datasets import DatasetIndex
from redkiln.tables import TableOptions
from service.datasets.inspect.__main__ import inspect
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.order import Order
from service.datasets.inspect.report import INDEX, InspectionReport, Refused

NAMES = ("blue", "green", "red")


def make_rows(num=40):
    rng = random.Random(0)
    return [(f"{number:03}.png", rng.sample(NAMES, rng.choice((1, 2)))) for number in range(num)]


def write_csv(rows, *, head="file,labels", mark=";"):
    lines = [f"{name},{mark.join(labels)}" for name, labels in rows]
    return "\n".join([head, *lines]).encode()


@pytest.fixture
def look(tmp_path):
    """Inspect an archive in this process, as the child does; returns its index and report."""

    def look(content, **options):
        path = tmp_path / "upload"
        path.write_bytes(content)
        order = Order(
            kind="archive",
            path=str(path),
            parent_pid=os.getpid(),
            limits=Limits(),
            options=TableOptions(**options),
        )
        try:
            report = inspect(order, work_dir=tmp_path)
        except Refused as refused:
            return None, InspectionReport(errors=refused.problems)
        if report.errors:
            return None, report
        return DatasetIndex.model_validate_json((tmp_path / INDEX).read_bytes()), report

    return look


@pytest.fixture
def images(make):
    """Return images of the rows, each with its own pixels."""

    def images(rows, *, prefix=""):
        return [
            (f"{prefix}{name}", make.encode(colour=(place, 0, 0)))
            for place, (name, _) in enumerate(rows)
        ]

    return images


@pytest.fixture
def look_at(look, make, images):
    def look_at(content, *, rows=None, prefix="", **options):
        files = [("labels.csv", content), *images(rows or make_rows(), prefix=prefix)]
        return look(make.zip(files), **options)

    return look_at


@pytest.mark.parametrize("prefix", ["", "images/"])
def test_each_image_has_its_labels(look_at, prefix):
    rows = make_rows()
    index, report = look_at(write_csv(rows), prefix=prefix)
    assert report.errors == []
    assert (index.format, index.labels_separator, index.classes) == (2, ";", list(NAMES))
    samples = index.splits["train"] + index.splits["test"]
    found = {s.path.removeprefix(prefix): {index.classes[la] for la in s.labels} for s in samples}
    assert found == {name: set(labels) for name, labels in rows}
    assert {split: sum(n.values()) for split, n in report.counts.items()} == {
        "train": 35,
        "test": 5,
    }
    assert sum(report.label_counts["train"].values()) > 40


def test_images_are_split_by_the_column(look_at):
    rows = make_rows()
    lines = write_csv(rows, head="file,labels,split").decode().splitlines()
    given = [f"{line},{'test' if n % 4 == 0 else 'train'}" for n, line in enumerate(lines[1:])]
    index, report = look_at("\n".join([lines[0], *given]).encode())
    assert report.errors == []
    assert not index.held_out_test
    assert [sample.path for sample in index.splits["test"]] == [name for name, _ in rows[::4]]


def test_without_a_second_label_each_image_has_one_class(look_at):
    rows = [(name, labels[:1]) for name, labels in make_rows()]
    index, report = look_at(write_csv(rows))
    assert (report.errors, report.label_counts) == ([], {})
    assert (index.format, index.labels_separator) == (1, None)
    assert index.splits["train"][0].labels is None


def test_an_image_without_a_row_is_left_out_and_named(look_at):
    rows = make_rows()
    index, report = look_at(write_csv(rows[:-2]))
    assert len(index.splits["train"] + index.splits["test"]) == 38
    assert report.num_skipped == 2
    assert [skipped.path for skipped in report.skipped] == ["038.png", "039.png"]
    assert any("2 images have no row in labels.csv" in note for note in report.notes)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("other.png,red", "missing_images", "there is no file other.png"),
        ("000.png,red", "duplicate_row", "has a row already (labels.csv, line 2)"),
        ("001.png, ;", "bad_label_row", "such as `other`"),
        (",red", "bad_label_row", "has no file name"),
    ],
)
def test_a_row_that_does_not_fit_is_an_error_with_its_line(look_at, line, code, words):
    rows = [("000.png", ["red", "blue"]), *make_rows()[2:]]
    _, report = look_at(write_csv(rows) + f"\n{line}".encode())
    assert report.errors[0].code == code
    last = report.errors[-1]
    assert (last.path, words in last.message) == ("labels.csv, line 41", True)


def test_rows_of_empty_cells_are_no_rows(look_at):
    _, report = look_at(write_csv(make_rows()) + b"\n,\n,,,\n")
    assert (report.errors, report.num_skipped) == ([], 0)


def test_the_case_of_a_file_name_counts_only_if_files_differ_in_nothing_else(look_at):
    rows = [("000.PNG", ["red", "blue"]), *make_rows()[1:]]
    _, report = look_at(write_csv(rows))
    assert (report.errors, report.num_skipped) == ([], 0)


def test_labels_that_differ_only_in_case_are_warned_of(look_at):
    rows = [("000.png", ["Red", "blue"]), *make_rows()[1:]]
    _, report = look_at(write_csv(rows))
    (warning,) = [found for found in report.warnings if found.code == "spellings"]
    assert "classes 'Red', 'red'" in warning.message


def test_few_rows_without_a_label_are_skipped_and_named(look_at):
    rows = make_rows(101)
    content = write_csv([*rows[:100], (rows[100][0], [])])
    index, report = look_at(content, rows=rows)
    assert (report.errors, report.num_skipped) == ([], 1)
    assert len(index.splits["train"] + index.splits["test"]) == 100
    (skipped,) = report.skipped
    assert (skipped.path, "such as `other`" in skipped.message) == ("labels.csv, line 102", True)
    assert "1 row of labels.csv has no label; it was skipped" in report.notes
    content = write_csv([*rows[:99], *((name, []) for name, _ in rows[99:])])
    _, report = look_at(content, rows=rows)
    assert report.errors[0].message.startswith("2 of 101 rows have no label; by default at most 1 ")
    assert [error.path for error in report.errors[1:]] == [
        "labels.csv, line 101",
        "labels.csv, line 102",
    ]


@pytest.mark.parametrize(
    ("yes", "no"), [("x", ""), ("1", "0"), ("X", "-"), ("ja", "nein"), ("True", "False")]
)
def test_each_column_of_marks_is_a_label(look_at, yes, no):
    rows = make_rows()
    lines = [
        ";".join([name, *(yes if one in labels else no for one in NAMES), f"at {name[:3]} m"])
        for name, labels in rows
    ]
    content = "\n".join([f"Dateiname;{';'.join(NAMES)};Ort", *lines]).encode()
    index, report = look_at(content)
    assert (report.errors, index.labels_separator) == ([], ";")
    samples = index.splits["train"] + index.splits["test"]
    found = {s.path: {index.classes[la] for la in s.labels} for s in samples}
    assert found == {name: set(labels) for name, labels in rows}
    assert (
        "labels.csv has one column for each label: blue, green, red; not read: Ort. If one column "
        "has the labels, choose it with target=COLUMN"
    ) in report.notes
    _, report = look_at(content, labels_separator="none")
    assert "one column for each label" in report.errors[0].message


def test_marks_of_one_label_in_each_row_are_classes(look_at):
    rows = [(name, labels[:1]) for name, labels in make_rows()]
    lines = [",".join([name, *(str(int(o in labels)) for o in NAMES)]) for name, labels in rows]
    index, report = look_at("\n".join([f"image,{','.join(NAMES)}", *lines]).encode())
    assert (report.errors, index.format, index.classes) == ([], 1, list(NAMES))


def test_a_cell_that_is_no_mark_is_named(look_at):
    rows = make_rows()
    lines = [",".join([name, *("x" if o in la else "" for o in NAMES)]) for name, la in rows]
    lines[5] = f"{rows[5][0]},x,?,x"
    _, report = look_at("\n".join([f"image,{','.join(NAMES)}", *lines]).encode())
    (error,) = report.errors
    assert error.code == "no_labels"
    assert "one column for each label, but the cell '?' in green is neither a mark" in error.message


def test_skip_bad_lets_rows_without_a_file_in(look_at):
    content = write_csv(make_rows()) + b"\nother.png,red"
    _, report = look_at(content, skip_bad=1)
    assert (report.errors, report.num_skipped) == ([], 1)
    assert report.skipped[0].path == "labels.csv, line 42"


def test_a_test_label_without_training_images_is_an_error(look_at):
    rows = [(name, ["red", "blue"]) for name, _ in make_rows()]
    content = write_csv(rows, head="file,labels,split").decode().replace("\n", ",train\n")
    content = content.replace("split,train", "split").replace("039.png,red;blue", "039.png,green")
    _, report = look_at(f"{content},test".encode())
    assert [error.code for error in report.errors] == ["unknown_test_class"]
    assert report.errors[0].path == "labels.csv, line 41"


@pytest.mark.parametrize(
    ("head", "mark", "note"),
    [
        ("filename,tags", ",", None),
        ("image,label", ",", None),
        ("Datei;Kategorien", ";", "Datei of labels.csv names the files, so Kategorien has"),
        ("image_id\tbreed", "\t", "image_id of labels.csv names the files, so breed has"),
        ("Datei,label", ",", "Datei of labels.csv names the files, so label has"),
        ("path,wert", ",", "path of labels.csv names the files, so wert has"),
    ],
)
def test_columns_with_other_names_are_found_by_the_file_names(look_at, head, mark, note):
    lines = [f"{name}{mark}{labels[0]}" for name, labels in make_rows()]
    index, report = look_at("\n".join([head, *lines]).encode())
    assert (report.errors, index.classes) == ([], list(NAMES))
    guessed = [found for found in report.notes if "names the files" in found]
    assert len(guessed) == (note is not None)
    assert note is None or note in guessed[0]


def test_an_unnamed_column_of_row_numbers_is_not_read(look_at):
    lines = [f"{row},{name},{labels[0]}" for row, (name, labels) in enumerate(make_rows())]
    index, report = look_at("\n".join([",filename,label", *lines]).encode())
    assert (report.errors, index.classes) == ([], list(NAMES))


def test_a_description_named_like_files_is_not_taken_for_them(look_at):
    lines = [f"a thing,{name},{labels[0]}" for name, labels in make_rows()]
    index, report = look_at("\n".join(["name,Datei,label", *lines]).encode())
    assert (report.errors, index.classes) == ([], list(NAMES))


def test_files_are_found_without_their_ending(look_at):
    lines = [f"{name.removesuffix('.png')},{labels[0]},7" for name, labels in make_rows()]
    content = "\n".join(["id,label,weight", *lines]).encode()
    index, report = look_at(content, prefix="train/")
    assert (report.errors, index.classes) == ([], list(NAMES))
    assert any("id of labels.csv names the files" in note for note in report.notes)


def test_a_name_without_its_ending_must_fit_one_image(look, make, images):
    rows = [(name.removesuffix(".png"), labels) for name, labels in make_rows()]
    files = [("labels.csv", write_csv(rows)), *images(make_rows())]
    _, report = look(make.zip([*files, ("more/000.jpg", make.encode(kind="JPEG"))]))
    assert report.errors[-1].path == "labels.csv, line 2"
    words = "000 may be 2 images (000.png, more/000.jpg); write its path with the ending"
    assert report.errors[-1].message == words


def test_a_column_is_chosen_as_the_target(look_at):
    lines = [f"{name},{labels[0]},{place % 2}" for place, (name, labels) in enumerate(make_rows())]
    content = "\n".join(["id,colour,side", *lines]).encode()
    assert look_at(content, target="colour")[0].classes == list(NAMES)
    assert look_at(content, target="side")[0].classes == ["0", "1"]
    _, report = look_at(content, target="form")
    assert "and no other one is called form" in report.errors[0].message
    _, report = look_at(content)
    assert "choose it with target=COLUMN" in report.errors[0].message


@pytest.mark.parametrize(
    ("head", "line", "words"),
    [
        (
            "id,wert,farbe",
            "{name},1,{label}",
            "id has the file names, but it is not clear which has",
        ),
        ("id,wert", "1,{label}", "has the columns id, wert, and it is not clear which"),
        ("links,rechts", "{name},{name}", "name the one `file` and the other `labels`"),
        ("000.png,red", "{name},{label}", "the first line has the file 000.png; add `file,labels`"),
    ],
)
def test_columns_that_are_not_clear_are_refused_with_what_to_do(look_at, head, line, words):
    lines = [line.format(name=name, label=labels[0]) for name, labels in make_rows()]
    _, report = look_at("\n".join([head, *lines]).encode())
    assert [error.code for error in report.errors] == ["no_labels"]
    assert words in report.errors[0].message


def test_another_separator_has_to_be_given(look_at):
    content = write_csv(make_rows(), mark="|")
    index, _ = look_at(content, labels_separator="|")
    assert index.classes == list(NAMES)
    _, report = look_at(content)
    assert [error.code for error in report.errors] == ["labels_not_split"]
    assert "push the images again with labels_separator='|'" in report.errors[0].message
    _, report = look_at(content, labels_separator=";")
    assert [error.code for error in report.errors] == ["no_separator"]


@pytest.mark.parametrize("mark", ["|", ";"])
def test_cells_that_look_like_lists_can_be_one_class_each(look_at, mark):
    rows = make_rows()
    index, report = look_at(write_csv(rows, mark=mark), labels_separator="none")
    assert (report.errors, index.format, index.labels_separator) == ([], 1, None)
    assert "labels_not_split" not in [warning.code for warning in report.warnings]
    assert index.classes == sorted({mark.join(labels) for _, labels in rows})


def test_classes_that_may_be_lists_are_a_warning(look_at):
    names = ["red|blue", "blue|green", "red", "green", "blue", "a", "b", "c", "d", "e"]
    rows = [(f"{number:03}.png", [names[number % 10]]) for number in range(40)]
    _, report = look_at(write_csv(rows))
    assert report.errors == []
    (warning,) = [found for found in report.warnings if found.code == "labels_not_split"]
    assert "if it is one class, with labels_separator=none" in warning.message


def test_a_separator_without_a_labels_file_is_refused(look, make):
    _, report = look(make.zip(make.image_set()), labels_separator=";")
    assert [error.code for error in report.errors] == ["no_table"]


@pytest.mark.parametrize(("encoding", "name"), [("shift_jis", "緑"), ("cp1251", "да")])
def test_labels_of_other_scripts_need_the_name_of_their_encoding(look_at, encoding, name):
    content = write_csv(make_rows()).decode().replace("green", name).encode(encoding)
    _, report = look_at(content)
    (error,) = report.errors
    assert (error.code, error.path) == ("bad_encoding", "labels.csv")
    assert f"in {encoding} it has '{name}" in error.message
    assert "set encoding=NAME to one of gb18030" in error.message
    index, _ = look_at(content, encoding=encoding)
    assert index.classes == sorted(["blue", name, "red"])


@pytest.mark.parametrize(("encoding", "is_noted"), [("cp1252", True), ("utf-16", False)])
def test_labels_of_western_european_programs_are_read_as_they_are(look_at, encoding, is_noted):
    content = write_csv(make_rows()).decode().replace("green", "grün").encode(encoding)
    index, report = look_at(content)
    assert index.classes == ["blue", "grün", "red"]
    note = "the text labels.csv is not UTF-8; it was read as cp1252"
    assert (note in report.notes) is is_noted


@pytest.mark.parametrize("head", ["file;labels", "file;labels;;"])
def test_labels_in_several_cells_are_refused_and_not_dropped(look_at, head):
    content = write_csv(make_rows(), head=head).replace(b",", b";")
    _, report = look_at(content)
    assert {error.code for error in report.errors} == {"bad_label_row"}
    assert 'write all labels of an image into one cell, as "red;blue"' in report.errors[0].message
    quoted = "\n".join([head, *(f'{name};"{";".join(labels)}"' for name, labels in make_rows())])
    index, _ = look_at(quoted.encode())
    assert index.classes == ["blue", "green", "red"]


def test_a_given_limit_of_what_is_skipped_holds_for_files_and_rows_together(look, images, make):
    files = dict(images(make_rows())) | {"000.png": b"no picture"}
    content = write_csv(make_rows()) + b"\nother.png,red"
    files |= {"labels.csv": content}
    _, report = look(make.zip(files.items()), skip_bad=1)
    assert report.errors[0].message == (
        "1 of 40 files are not usable images and 1 of 41 rows name files that do not exist; at "
        "most 1 is skipped. Repair or remove them, or skip them with skip_bad=2"
    )
    assert [error.path for error in report.errors[1:]] == ["000.png", "labels.csv, line 42"]
    _, report = look(make.zip(files.items()), skip_bad=2)
    assert (report.errors, report.num_skipped) == ([], 2)
