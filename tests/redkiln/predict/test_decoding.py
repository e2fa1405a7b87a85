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
