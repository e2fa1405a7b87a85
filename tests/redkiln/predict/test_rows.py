import gzip
import io
import math

import pytest

from redkiln.errors import ModelError
from redkiln.predict.items import InputError
from redkiln.predict.model import Model
from redkiln.predict.rows import RowPreparation
from tests.redkiln.predict.models import save_prices, save_shares

TABLE = "id,rooms,built,colour\na,2,03/04/2001,grey\nb,,,\n"


@pytest.fixture
def prices(tmp_path):
    return save_prices(tmp_path / "model")


def test_rows_are_read_by_name_and_named_by_line(predict, prices, tmp_path):
    path = tmp_path / "new.csv"
    path.write_text(TABLE)
    # 100 * rooms + year of the date + 1000 * place of the colour; -1 is the place of no colour
    assert predict(prices, path) == {f"{path}:2": 3201.0, f"{path}:3": -1000.0}
    assert not predict.skipped


def test_a_record_of_several_lines_is_named_by_its_first(predict, prices, tmp_path):
    path = tmp_path / "new.csv"
    path.write_text('id,rooms,built,colour\n"a\nb",2,,grey\n\n"c\n\nd",1,,grey\ne,3,,grey\n')
    assert list(predict(prices, path)) == [f"{path}:{line}" for line in (2, 5, 8)]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_table_with_a_byte_order_mark_is_read(predict, prices, encoding):
    assert list(predict(prices, "-", stdin=TABLE.encode(encoding)).values()) == [3201.0, -1000.0]


def test_a_table_in_the_encoding_of_excel_is_read_with_a_note(predict, tmp_path):
    model = save_prices(tmp_path / "model", colours=["weiß", "größer"])
    table = "rooms,built,colour\n1,1/1/2000,größer\n".encode("cp1252")
    assert list(predict(model, "-", stdin=table).values()) == [3100.0]
    assert predict.notes == ["stdin is not UTF-8; it was read as cp1252."]


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_the_delimiter_is_the_one_that_separates_known_columns(predict, prices, delimiter):
    text = TABLE.replace(",", delimiter).encode()
    assert list(predict(prices, "-", stdin=text).values()) == [3201.0, -1000.0]


def test_json_lines_and_gzip_are_read(predict, prices, tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    lines = b'{"rooms": 1.5, "built": null, "colour": "white"}\n\n[1]\n{"rooms": '
    path.write_bytes(gzip.compress(lines))
    assert predict(prices, path) == {f"{path}:1": 150.0}
    assert "not a JSON object" in predict.skipped[f"{path}:3"]
    assert "is not JSON" in predict.skipped[f"{path}:4"]


@pytest.mark.parametrize(
    ("rooms", "value"),
    [("$1.200,5", 120050.0), ("-999", 0.0), ("Unknown", 0.0), (" 3 ", 300.0)],
)
def test_numbers_are_read_as_in_the_training_table(predict, prices, rooms, value):
    text = f'rooms,built,colour\n"{rooms}",,white\n'.encode()
    assert list(predict(prices, "-", stdin=text).values()) == [value]


def test_a_number_written_unlike_training_is_named_with_its_line_and_reading(
    predict, prices, tmp_path
):
    path = tmp_path / "new.csv"
    rooms = ["$1.200,5", "$60.50", "$2,5", "1,250.5", "3.5", "$7.25", "$8.25", "$9.25"]
    lines = [f'"{text}",1/1/2000,white' for text in rooms]
    path.write_text("\n".join(["rooms,built,colour", *lines]))
    numbers = [1200.5, 60.5, 2.5, 1250.5, 3.5, 7.25, 8.25, 9.25]
    assert list(predict(prices, path).values()) == [100 * number + 2000 for number in numbers]
    (note,) = predict.notes
    assert note == (
        f"{path}:3, column rooms: '$60.50' was read as 60.5, although the training table writes "
        f"decimals after a comma; write '$60,50'. 5 more: {path}:5 ('1,250.5' as 1250.5), "
        f"{path}:6 ('3.5' as 3.5), {path}:7 ('$7.25' as 7.25), ..."
    )
    part = {"name": "numbers", "columns": ["x"]}
    part["written"] = {"x": {"unit": "", "decimal": ",", "separates_thousands": False}}
    preparation = RowPreparation({"inputs": [part]})
    for place, text in (("a:2", "1.5"), ("a:3", "1.234"), ("a:4", "2.5"), ("a:5", "1,5")):
        preparation._read({"x": text}, place)
    assert [note.partition(" was")[0] for note in preparation.notes] == [
        "a:2, column x: '1.5'",
        "a:3, column x: '1.234'",
    ]


@pytest.mark.parametrize(
    ("unit", "text", "advice"),
    [
        ("€", "5 CHF", "the training table has numbers in €, so convert it"),
        ("", "5 m2", "write only the number, as in the training table"),
        ("", "54%", "write it as the training table does, without %, for example as 54 or as 0.54"),
        ("€", "54 %", "write it as the training table does, in €"),
    ],
)
def test_a_number_in_another_unit_is_skipped_with_what_to_do(unit, text, advice):
    part = {"name": "numbers", "columns": ["x"]}
    part["written"] = {"x": {"unit": unit, "decimal": "."}} if unit else {}
    with pytest.raises(InputError, match="is not a number; ") as refused:
        RowPreparation({"inputs": [part]})._read({"x": text})
    assert str(refused.value).endswith(f"{text!r} is not a number; {advice}")


def test_numbers_without_the_percent_sign_of_training_are_noted_with_the_first_row():
    part = {"name": "numbers", "columns": ["x"]}
    part["written"] = {"x": {"unit": "%", "decimal": "."}}
    preparation = RowPreparation({"inputs": [part]})
    read = [
        preparation._read({"x": x}, f"a:{row}").numbers
        for row, x in enumerate(["7%", "0.5", "0.25", 0.5])
    ]
    assert read == [[7], [0.5], [0.25], [0.5]]  # a number of JSON has no sign
    (note,) = preparation.notes
    assert note == (
        "a:1, column x: '0.5' was read as 0.5, although the training table writes % after the "
        "numbers; write '0.5%' or '50%'. 1 more: a:2 ('0.25' as 0.25)"
    )


def test_columns_that_the_training_table_lacks_are_noted_with_their_first_row(predict, tmp_path):
    model = save_prices(tmp_path / "model", ignored=["price", "id"])
    predict(model, "-", stdin=b"id,rooms,built,colour,color,price\n1,2,1/1/2000,white,grey,7\n")
    (note,) = predict.notes
    assert note.startswith("Columns that the training table does not have are not read: color (std")
    rows = tmp_path / "rows.jsonl"
    row = '{"rooms": 1, "built": "1/1/2000", "colour": "grey"%s}\n'
    rows.write_text(row % "" + row % ', "garden": 1')
    predict(model, rows)
    assert f"garden ({rows}:2)" in predict.notes[0]


def test_a_column_without_values_is_noted_with_the_number_of_its_rows(predict, prices):
    text = b"rooms,built,colour\n1,,white\n-999,,\n2,,Unknown\n"
    predict(prices, "-", stdin=text)
    (note,) = predict.notes
    assert note.startswith("Column built is empty in all 3 rows. Check the table")


def test_gaps_are_noted_in_the_columns_that_never_had_one_in_training(predict, tmp_path):
    model = save_prices(tmp_path / "model", complete_columns=["rooms", "built"])
    text = b"rooms,built,colour\n1,,white\n-999,1/1/2000,\n2,1/1/2000,Unknown\n"
    predict(model, "-", stdin=text)
    assert [note.partition(".")[0] for note in predict.notes] == [
        "Column built is empty in 1 of 3 rows, but never was in training",
        "Column rooms is empty in 1 of 3 rows, but never was in training",
    ]
    predict(model, "-", stdin=b"rooms,built,colour\n1,,white\n")
    assert predict.notes[0].startswith("Column built is empty in the row, but never was")
    predict(model, "-", stdin=b"rooms,built,colour\n1,1/1/2000,\n")
    assert predict.notes == []


def test_rows_with_invalid_numbers_are_skipped(predict, prices):
    text = b"rooms,built,colour\nmany,,white\n1e99,,white\n1,2\n1,,white\n"
    assert predict(prices, "-", stdin=text) == {"stdin:5": 100.0}
    assert predict.skipped == {
        "stdin:2": "column rooms: 'many' is not a number",
        "stdin:3": "column rooms: '1e99' is not a finite float32 number",
        "stdin:4": "the row has 2 fields instead of 3",
    }


def test_what_is_not_a_date_counts_as_missing_like_in_training_and_is_named(predict, prices):
    answers = predict(prices, "-", stdin=b"rooms,built,colour\n1,soon,white\n1,1/1/2000,white\n")
    assert answers == {"stdin:2": 100.0, "stdin:3": 2100.0}
    assert not predict.skipped
    start = "Column built: a value that is not a date counts as missing, as in training: "
    assert predict.notes == [f"{start}'soon' (stdin:2)"]
    predict(prices, "-", stdin=b"rooms,built,colour\n" + b"1,soon,white\n" * 5)
    assert predict.notes[0].startswith("Column built: 5 values that are not dates count as missing")
    assert predict.notes[0].endswith("'soon' (stdin:4), ...")


def test_absent_columns_that_leak_are_named_with_how_to_train_without_them():
    parts = [{"name": "numbers", "columns": ["size", "final tax"]}]
    leak = "x predicts the target; to train: redkiln train FILE --column 'final tax=ignored'"
    preparation = RowPreparation({"inputs": parts}, leaks=[leak])
    with pytest.raises(ModelError, match=r"final tax=ignored'. This model cannot do without"):
        list(preparation.find("-", stdin=io.BytesIO(b"size\n1\n")))
    with pytest.raises(ModelError, match=r"model reads: size. .* with empty values"):
        list(preparation.find("-", stdin=io.BytesIO(b"final tax\n1\n")))


def test_round_amounts_with_a_dash_are_read():
    part = {"name": "numbers", "columns": ["x"]}
    plain = RowPreparation({"inputs": [part]})
    assert plain._read({"x": "143.-"}).numbers == [143]
    assert plain.notes == []
    with pytest.raises(InputError, match="is not a number"):
        plain._read({"x": "1,299.-x"})


def test_a_decimal_comma_is_read_with_a_note_unless_it_may_separate_thousands(predict, tmp_path):
    model = save_shares(tmp_path / "model", ["no", "yes"])
    answers = predict(model, "-", stdin=b'odds\n"1,5"\n2.5\n"1,500"\n')
    assert answers == {"stdin:2": "yes", "stdin:3": "yes"}
    assert "'1,5' was read as 1.5, although the training table writes decimals after a point" in (
        " ".join(predict.notes)
    )
    (reason,) = predict.skipped.values()
    assert reason.endswith("is not a number; the training table writes decimals after a point")


def test_unknown_categories_count_as_missing_with_a_note(predict, prices):
    text = b"rooms,built,colour\n1,,pink\n1,2/1/2001,unknown\n"
    assert list(predict(prices, "-", stdin=text).values()) == [-900.0, 1101.0]
    (note,) = predict.notes
    assert note.endswith("count as missing: colour 'pink' (1)")


def test_categories_in_another_script_are_read_in_their_named_encoding(predict, prices, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("rooms,built,colour\n1,,餐厅\n".encode("gbk"))
    predict(prices, path, encoding="gb18030")
    (note,) = predict.notes
    assert note.endswith("count as missing: colour '餐厅' (1)")


def test_a_table_without_a_column_is_refused_with_its_columns(predict, prices):
    with pytest.raises(ModelError, match=r"stdin lacks .*: built\. Its columns are rooms, bilt,"):
        predict(prices, "-", stdin=b"rooms,bilt,colour\n1,2,3\n")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"", "is empty"),
        (
            "a.csv",
            "rooms,built,colour\n1,,这家餐厅的菜很好吃\n".encode("gbk"),
            "European text .line 2",
        ),
        ("a.csv", b"\xff\xferoom\0", r"a\.csv is not valid utf-16"),
        ("a.parquet", b"PAR1", "Convert it to CSV"),
    ],
)
def test_unreadable_tables_are_refused_by_name(predict, prices, tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=words):
        predict(prices, tmp_path / name)


def test_missing_files_and_folders_are_refused(predict, prices, tmp_path):
    for argument, words in (
        ("gone.csv", r"gone\.csv does not exist"),
        (tmp_path, "Name its tables"),
    ):
        with pytest.raises(ModelError, match=words):
            predict(prices, argument)


def test_rows_are_given_by_column_name(tmp_path):
    model = Model(save_prices(tmp_path / "model", ignored=["price"]))
    row = {"rooms": 2, "built": "03/04/2001", "colour": "grey"}
    rows = [row, {**row, "rooms": "$1,5", "price": 7}, dict.fromkeys(row), {**row, "rooms": "x"}]
    first, second, third, fourth = model.predict(rows)
    assert [first.answer, second.answer, third.answer] == [3201.0, 3151.0, -1000.0]
    assert [one.name for one in (first, second, third)] == ["row 1", "row 2", "row 3"]
    assert (fourth.name, fourth.reason) == ("row 4", "column rooms: 'x' is not a number")
    (only,) = model.predict({**row, "colour": "pink"})
    assert only.answer == 1201.0
    assert model.notes[-1].endswith("colour 'pink' (1)")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"rooms": 1, "colour": ""}, "row 2 lacks columns that the model reads: built. Its col"),
        (
            {"rooms": 1, "built": None, "colour": "", "color": "grey"},
            "row 2 has columns that the model does not know: color. It reads rooms, built, colour",
        ),
    ],
)
def test_a_row_with_other_columns_than_the_model_is_refused(tmp_path, row, message):
    model = Model(save_prices(tmp_path / "model", ignored=["price"]))
    good = {"rooms": 2, "built": None, "colour": "grey", "price": 3}
    with pytest.raises(ModelError, match=message):
        list(model.predict([good, row]))


def test_words_of_a_text_become_numbers():
    origin = {"column": "about", "part": "word", "day_first": False}
    derived = {"about.quiet": {**origin, "word": "quiet"}, "about.old": {**origin, "word": "old"}}
    numbers = {"name": "numbers", "columns": list(derived), "derived": derived}
    preparation = RowPreparation({"inputs": [numbers]})
    assert preparation.columns == ["about"]
    rows = [{"about": "Quiet, new"}, {"about": None}, {"about": "old and QUIET"}]
    assert [preparation._read(row).numbers for row in rows] == [[1, 0], [0, 0], [1, 1]]
    ready = list(preparation.find("-", stdin=io.BytesIO(b"about.quiet,about.old\n1.0,0.0\n")))
    assert ready[0].read().numbers == [1, 0]


def test_the_days_between_two_dates_are_derived():
    between = {"column": "sent", "part": "days_since", "day_first": True, "since": "ordered"}
    derived = {"late": {**between, "since_day_first": False}}
    parts = [{"name": "numbers", "columns": ["late"], "derived": derived}]
    preparation = RowPreparation({"inputs": parts})
    assert set(preparation.columns) == {"sent", "ordered"}
    assert preparation._read({"sent": "03/02/24", "ordered": "01/31/24"}).numbers == [3]
    assert math.isnan(preparation._read({"sent": "03/02/24", "ordered": ""}).numbers[0])


def test_notes_are_about_the_last_call(prices):
    model = Model(prices)
    list(model.predict({"rooms": 1, "built": "", "colour": "pink"}))
    assert len(model.notes) == 1
    list(model.predict({"rooms": 1, "built": "", "colour": "white"}))
    assert model.notes == []
