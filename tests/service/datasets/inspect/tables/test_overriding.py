"""What the owner says comes before what was inferred."""

import io
import zipfile

import pytest


def test_target_and_types_are_taken_as_said(look, rows):
    looked = look(rows(), target="size", columns={"label": "ignored", "x": "numeric"})
    assert looked.report.target == "size"
    assert looked.uses() == {"x": "numeric", "size": "target", "label": "ignored"}


def test_numbers_can_be_categories(look, rows):
    looked = look(rows(), columns={"size": "categorical"})
    size = next(column for column in looked.index.columns if column.name == "size")
    assert size.type == "categorical"
    assert set(size.categories) <= {str(number) for number in range(11)}


def test_a_few_whole_numbers_can_be_amounts(look, rows):
    content = rows(40, label=lambda i: i % 4)
    assert look(content).report.task == "tabular-classification"
    assert look(content, task="tabular-regression").report.task == "tabular-regression"


def test_a_text_is_classified_when_its_column_is_named(look):
    lines = ["words,n,stars"] + [f"word{i},{i % 5},{i % 3}" for i in range(30)]
    looked = look("\n".join(lines), text="words", target="stars")
    assert looked.report.task == "text-classification"
    assert looked.uses() == {"words": "text", "n": "ignored", "stars": "target"}


def test_a_header_can_be_denied(look):
    content = "\n".join(f"k{i % 3},{i % 7},{'ab'[i % 2]}" for i in range(30))
    assert look(content, header=False).index.num_train == 26
    assert look(content, header=True).index.target == "a"


@pytest.mark.parametrize("name", ["Label", "lable", "nothing-like-it"])
def test_an_unknown_column_is_told_the_nearest_one(look, rows, name):
    looked = look(rows(), target=name)
    assert looked.codes == ["unknown_column"]
    assert "label" in looked.errors[0].message


def test_options_of_tables_are_refused_for_images(look):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("cat/1.png", b"x")
    looked = look(buffer.getvalue(), target="label")
    assert looked.codes == ["no_table"]


def test_train_and_test_files_of_an_archive_are_the_splits(look, rows):
    def pack(**files):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content in files.items():
                archive.writestr(f"data/{name}.csv", content)
        return buffer.getvalue()

    looked = look(pack(train=rows(40), test=rows(10)))
    assert (looked.index.num_train, looked.index.num_test) == (40, 10)
    several = look(pack(cats=rows(40), dogs=rows(10)))
    assert several.codes == ["several_tables"]
    other = look(pack(train=rows(40), test=rows(10, header="x,siz,label")))
    assert (other.codes, other.errors[0].path) == (["other_columns"], "data/test.csv")
    unseen = look(pack(train=rows(40), test=rows(10, label=lambda i: "abz"[i % 3])))
    assert unseen.codes == ["unknown_test_class"]
    assert unseen.errors[0].path == "data/test.csv, line 4"
