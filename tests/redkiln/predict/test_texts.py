import json

import pytest

from redkiln.errors import ModelError
from redkiln.predict.model import Model
from tests.redkiln.predict.models import save_moods


@pytest.fixture
def moods(tmp_path):
    return save_moods(tmp_path / "model")


def test_texts_are_arguments_lines_of_files_and_of_stdin(predict, moods, tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("good good\n\nbad\n")
    assert predict(moods, "so good", path) == {
        "so good": "happy",
        f"{path}:1": "happy",
        f"{path}:3": "sad",
    }
    assert predict(moods, "-", stdin=b"bad luck\n") == {"stdin:1": "sad"}


def test_texts_are_decoded_as_for_training(predict, moods, tmp_path):
    table, lines = tmp_path / "mail.csv", tmp_path / "lines.txt"
    table.write_bytes("message\nbad “naïve”\n".encode("cp1252"))
    lines.write_bytes("schön good\n".encode("cp1252"))
    wide = tmp_path / "wide.txt"
    wide.write_text("good\n", encoding="utf-16")
    answers = predict(moods, table, lines, wide)
    assert list(answers.values()) == ["sad", "happy", "happy"]
    assert predict.notes == [
        f"{path} is not UTF-8; it was read as cp1252." for path in (table, lines)
    ]
    lines.write_bytes("good\n料理がとても美味しくて\n".encode("shift_jis"))
    with pytest.raises(ModelError, match=r"lines\.txt is neither UTF-8 nor .* text \(line 2; in "):
        predict(moods, lines)


def test_texts_in_another_script_are_read_in_their_named_encoding(predict, moods, tmp_path):
    lines, table = tmp_path / "lines.txt", tmp_path / "mail.csv"
    lines.write_bytes("good\n料理がとても bad\n".encode("cp932"))
    table.write_bytes("text\n料理 good\n".encode("cp932"))
    assert list(predict(moods, lines, table, encoding="Shift_JIS").values()) == [
        "happy", "sad", "happy"
    ]  # fmt: skip
    assert predict.notes == []
    with pytest.raises(ModelError, match=r"lines\.txt is not valid UTF-8"):
        predict(moods, lines, encoding="utf-8")
    with pytest.raises(ModelError, match=r"--encoding: 'klingon' is not an encoding of text"):
        predict(moods, lines, encoding="klingon")


def test_an_empty_text_is_skipped_and_the_others_are_answered(moods):
    good, empty = Model(moods).predict(["so good", " "])
    assert good.answer == "happy"
    assert (empty.name, empty.reason) == ("an empty text", "the text is empty")


def test_one_text_needs_no_list(moods):
    (answer,) = Model(moods).predict("bad luck")
    assert (answer.name, answer.answer) == ("bad luck", "sad")


def test_the_text_of_a_row_is_read_from_the_training_tables_column(moods):
    first, second = Model(moods).predict([{"message": "bad", "text": "good"}, {"text": "good"}])
    assert [first.answer, second.answer] == ["sad", "happy"]
    with pytest.raises(
        ModelError, match=r"row 1 lacks the column 'message'\. Its columns are a, b"
    ):
        list(Model(moods).predict({"a": "good", "b": "bad"}))


def test_padding_does_not_change_an_answer(predict, moods):
    found = predict(moods, "bad", "good good good bad", batch_size=2)
    assert list(found.values()) == ["sad", "happy"]


def test_the_training_tables_column_is_read_from_tables(predict, moods, tmp_path):
    path = tmp_path / "mail.csv"
    path.write_text('text,message\nbad,"good, really"\nbad,\n')
    assert predict(moods, path) == {f"{path}:2": "happy"}
    assert predict.skipped == {f"{path}:3": "the text is empty"}
    assert predict(moods, path, column="text") == {f"{path}:2": "sad", f"{path}:3": "sad"}


def test_a_column_that_was_the_target_in_training_is_noted(predict, moods, tmp_path):
    path = tmp_path / "mail.csv"
    path.write_text("message,mood\nbad,good\nbad,good\n")
    assert predict(moods, path, column="mood") == {f"{path}:2": "happy", f"{path}:3": "happy"}
    (note,) = predict.notes
    assert note.startswith("Column 'mood' was the target in training")
    assert note.endswith("The texts were in column 'message'.")
    predict(moods, path, column="message")
    assert predict.notes == []


def test_a_table_without_a_header_is_read_by_the_number_of_a_column(predict, moods, tmp_path):
    path = tmp_path / "mail.tsv"
    path.write_text('ham\tgood "quoted\nspam\tbad, bad\n')
    assert predict(moods, path, column="2") == {f"{path}:1": "happy", f"{path}:2": "sad"}


def test_an_unknown_column_is_refused_with_those_of_the_table(predict, moods, tmp_path):
    path = tmp_path / "mail.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ModelError, match=r"lacks the column 'message'\. Its columns are a, b;"):
        predict(moods, path)


def test_a_misspelt_column_is_refused_with_the_nearest_one(predict, moods, tmp_path):
    path = tmp_path / "mail.csv"
    path.write_text("text,subject\ngood,bad\n")
    message = r"lacks the column 'sujbect'; did you mean 'subject'\? Its columns are text, subject"
    with pytest.raises(ModelError, match=message):
        predict(moods, path, column="sujbect")
    path.write_text("subject\ngood\n")
    with pytest.raises(ModelError, match=r"lacks the column 'x'\. Its columns are subject"):
        predict(moods, path, column="x")


def test_a_missing_file_is_not_taken_for_a_text(predict, moods):
    with pytest.raises(ModelError, match=r"File mails\.csv does not exist"):
        predict(moods, "mails.csv")


def test_a_long_text_is_named_by_its_beginning(predict, moods):
    (name,) = predict(moods, "good " * 2000)
    assert len(name) == 60
    assert name.endswith("…")


def test_a_tokenizer_that_is_not_the_published_one_is_refused(predict, moods):
    manifest = json.loads((moods.parent / "manifest.json").read_text())
    manifest["files"]["tokenizer.json"] = {"sha256": "0" * 64, "size_bytes": 9}
    (moods.parent / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelError, match=r"tokenizer\.json .* is not the file of 9 bytes"):
        predict(moods, "good")


def test_a_model_without_its_tokenizer_says_which_file_is_missing(predict, moods):
    (moods.parent / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"tokenizer\.json is missing"):
        predict(moods, "good")
    (moods.parent / "tokenizer.json").write_text("{")
    with pytest.raises(ModelError, match="is not a tokenizer"):
        predict(moods, "good")
