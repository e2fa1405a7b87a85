"""The user's options override what is inferred."""

import io
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def test_target_and_types_can_be_set(look, rows):
    looked = look(rows(), target="size", columns={"label": "ignored", "x": "numeric"})
    assert looked.report.target == "size"
    assert looked.uses() == {"x": "numeric", "size": "target", "label": "ignored"}


def test_numbers_can_be_categories(look, rows):
    looked = look(rows(), columns={"size": "categorical"})
    size = next(column for column in looked.index.columns if column.name == "size")
    assert size.type == "categorical"
    assert set(size.categories) <= {str(number) for number in range(11)}


def test_a_target_with_few_integers_can_be_a_regression(look, rows):
    content = rows(40, label=lambda i: i % 4)
    assert look(content).report.task == "tabular-classification"
    assert look(content, task="tabular-regression").report.task == "tabular-regression"


def test_a_text_is_classified_when_its_column_is_named(look):
    lines = ["words,n,stars"] + [f"word{i},{i % 5},{i % 3}" for i in range(30)]
    looked = look("\n".join(lines), text="words", target="stars")
    assert looked.report.task == "text-classification"
    assert looked.uses() == {"words": "text", "n": "ignored", "stars": "target"}


def column_of(looked, name):
    return next(column for column in looked.index.columns if column.name == name)


@pytest.fixture
def sensors():
    """A CSV whose column `heat` repeats these values, between a category and a label."""

    def sensors(*values, n=40):
        lines = [f"{values[i % len(values)]},{['NA', 'None', 'red'][i % 3]},{'ab'[i % 2]}"
                 for i in range(n)]  # fmt: skip
        return "\n".join(["heat,colour,label", *lines])

    return sensors


def test_other_words_can_mean_a_missing_value(look, sensors):
    content = sensors(1.5, 2.5, "-", "Not Available", "NOT AVAILABLE")
    assert look(content).uses()["heat"] == "categorical"
    looked = look(content, missing=["-", "not available"])
    assert column_of(looked, "heat").type == "numeric"
    assert column_of(looked, "heat").num_missing == 24
    assert sorted(column_of(looked, "colour").categories) == ["NA", "None", "red"]


def test_without_words_only_empty_fields_are_missing(look, sensors):
    content = sensors(1.5, "", 2.5, "  ")
    assert column_of(look(content), "colour").categories == ["red"]
    looked = look(content, missing=[])
    assert sorted(column_of(looked, "colour").categories) == ["NA", "None", "red"]
    assert column_of(looked, "colour").num_missing == 0
    assert column_of(looked, "heat").num_missing == 20


def test_without_words_nan_is_not_a_number(look, sensors):
    content = sensors(*range(59), "nan", n=240)
    assert column_of(look(content), "heat").num_missing == 4
    looked = look(content, missing=[], columns={"heat": "numeric"})
    assert "not_a_number" in looked.codes


def test_a_number_that_means_missing_is_excluded_from_the_statistics(look, sensors):
    looked = look(sensors(1, 3, "-999", "-999.0"), missing=["-999"])
    heat = column_of(looked, "heat")
    assert (heat.num_missing, heat.minimum, heat.maximum) == (20, 1, 3)
    assert looked.table["heat"].null_count == 20
    assert looked.index.missing_numbers == [-999]
    assert look(sensors(1, 3)).index.missing_numbers == []


def test_a_number_can_mean_missing_in_json_lines(look, json_lines):
    rows = [{"heat": [1, 2.5, -999, None][i % 4], "label": "ab"[i % 2]} for i in range(40)]
    looked = look(json_lines(*rows), missing=["-999.0"])
    assert column_of(looked, "heat").num_missing == 20
    assert column_of(looked, "heat").minimum == 1


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_a_number_can_mean_missing_in_parquet_however_it_is_rounded(look, kind):
    heat = pa.array([1.5, 2.5, -99.9, None] * 10, kind)
    buffer = io.BytesIO()
    pq.write_table(pa.table({"heat": heat, "label": list("abba") * 10}), buffer)
    looked = look(buffer.getvalue(), missing=["-99.9", "1e300"])
    assert column_of(looked, "heat").num_missing == 20
    assert column_of(looked, "heat").minimum == 1.5


def test_an_integer_that_means_missing_matches_only_itself(look, sensors):
    looked = look(sensors(10**9, 0, 10**9 - 1, 7), missing=[str(10**9 - 1), "1e-50"])
    assert column_of(looked, "heat").num_missing == 10
    assert column_of(looked, "heat").maximum == 10**9


def test_a_missing_target_is_reported_with_its_line(look, rows):
    content = rows(label=lambda i: "none" if i == 7 else "ab"[i % 2])
    assert (look(content).codes[0], look(content, missing=["-"]).codes) == ("bad_target", [])
    looked = look(content, missing=["b"])
    assert "line 3" in [error.path for error in looked.errors]


def test_a_header_is_found_above_custom_missing_words(look):
    lines = ["size,kind,label"] + [f"{i if i % 3 == 0 else '-'},k,{'ab'[i % 2]}" for i in range(30)]
    looked = look("\n".join(lines), missing=["-"])
    assert looked.report.target == "label"


def test_a_header_can_be_denied(look):
    content = "\n".join(f"k{i % 3},{i % 7},{'ab'[i % 2]}" for i in range(30))
    assert look(content, header=False).index.num_train == 26
    assert look(content, header=True).index.target == "a"


@pytest.mark.parametrize("name", ["Label", "lable", "nothing-like-it"])
def test_an_unknown_column_suggests_the_nearest_one(look, rows, name):
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


def test_labels_follow_the_given_order_of_classes(look, rows):
    content = rows(40, label=lambda i: ["low", "mid", "high"][i % 3])
    looked = look(content, classes=["low", "mid", "high"])
    assert looked.report.classes == looked.index.classes == ["low", "mid", "high"]
    names = [looked.index.classes[label] for label in looked.table["__target__"].to_pylist()]
    assert {name: names.count(name) for name in names} == {"low": 14, "mid": 13, "high": 13}


def test_listed_classes_make_a_classification_of_numbers(look, rows):
    looked = look(rows(60, label=lambda i: i % 30), classes=[str(i) for i in range(29, -1, -1)])
    assert looked.report.task == "tabular-classification"
    assert looked.index.classes[:2] == ["29", "28"]


def test_a_row_with_an_unlisted_class_is_reported_with_its_line(look, rows):
    content = rows(40, label=lambda i: "hihg" if i == 7 else ["low", "high"][i % 2])
    looked = look(content, classes=["low", "high"])
    assert looked.codes == ["bad_target", "bad_target"]
    assert looked.errors[1].path == "line 9"
    assert "'hihg' is not one of the listed classes" in looked.errors[1].message
    assert "did you mean 'high'?" in looked.errors[1].message


def test_a_listed_class_without_rows_is_reported(look, rows):
    looked = look(rows(), classes=["a", "b", "c"])
    assert looked.codes == ["unused_class"]
    assert "class c" in looked.errors[0].message
