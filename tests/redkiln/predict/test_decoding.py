import pytest

from redkiln.errors import ModelError
from redkiln.predict.decoding import Decoder

TEXT = "料理 good"


def test_files_that_are_not_unicode_are_in_the_encoding_of_the_training_table():
    decoder = Decoder(usual="cp932")
    assert decoder.decode("a.csv", TEXT.encode("cp932")) == TEXT
    assert decoder.notes == ["a.csv is not UTF-8; it was read as cp932, like the training table."]
    assert decoder.decode("b.csv", TEXT.encode()) == TEXT
    assert decoder.decode("c.csv", TEXT.encode("utf-16")) == TEXT
    assert len(decoder.notes) == 1


def test_a_file_in_another_encoding_than_the_training_table_is_read_as_without_one():
    decoder = Decoder(usual="cp932")
    text = "so much for the café, ÿ\n"
    assert decoder.decode("a.csv", text.encode("cp1252")) == text
    assert "read as cp1252" in decoder.notes[0]


def test_a_named_encoding_comes_before_that_of_the_training_table():
    assert Decoder("gb18030", usual="cp932").decode("a", TEXT.encode("gb18030")) == TEXT


@pytest.mark.parametrize(
    ("written", "named", "expected"),
    [
        ("cp1252", "utf-8", "UTF-8 (line 3 has the byte 0xe9); in cp1252 it has 'é, dear'. Save"),
        ("gb18030", "cp932", "cp932 (line 3 has the byte"),
        ("utf-16", "utf-8", "UTF-8 (line 1 has the byte 0xff); in utf-16 it has 'tex"),
        ("utf-8", "utf-16", "utf-16 (UTF-16 stream does not start with BOM); in utf-8 it has"),
    ],
)
def test_a_wrong_encoding_is_named_with_the_line_in_usual_ones(written, named, expected):
    content = "text\nplain\ncafé, dear\n"
    if written == "gb18030":
        content = content.replace("é", "ÿ料")
    with pytest.raises(ModelError) as raised:
        Decoder(named).decode("a.csv", content.encode(written))
    assert f"a.csv is not valid {expected}" in str(raised.value)


def test_the_line_is_found_behind_the_first_part_that_is_read():
    content = b"abcdefg\n" * 300_000 + b"caf\xe9\n"
    with pytest.raises(ModelError, match=r"line 300001 has the byte 0xe9\); in cp1252 it has 'é'"):
        Decoder("utf-8").decode("a.csv", content)
