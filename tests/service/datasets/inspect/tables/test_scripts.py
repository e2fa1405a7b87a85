"""Texts in scripts that put no blanks between words."""

import pytest

from redkiln.cells.encoding import read_encoding
from service.datasets.inspect.tables.value_types.words import count_words

TEXTS = {
    "Chinese": ("这家餐厅的菜很好吃服务也不错。", "等了一个小时菜还是冷的太失望了。"),
    "Japanese": (
        "料理がとても美味しくて、また行きたいです。",
        "待たされた上に料理が冷めていました。",
    ),
    "Thai": ("อาหารอร่อยมากและพนักงานบริการดี", "รอนานมากและอาหารก็เย็นหมดแล้ว"),
}


@pytest.mark.parametrize("texts", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("num_rows", [30, 600])
def test_prose_is_recognised_in_scripts_without_blanks(look, texts, num_rows):
    content = "\n".join(f"{texts[i % 2]}{i},{i % 2}" for i in range(num_rows))
    looked = look(f"opinion,stars\n{content}\n")
    assert looked.report.task == "text-classification"
    assert looked.uses() == {"opinion": "text", "stars": "target"}


def test_codes_of_the_rows_do_not_keep_a_table_from_being_about_its_texts(look):
    texts = TEXTS["Japanese"]
    content = "\n".join(f"Q-{i:03},{texts[i % 2]}{i},{i % 2}" for i in range(60))
    looked = look(f"番号,文,分類\n{content}\n")
    assert looked.report.task == "text-classification"
    assert looked.uses() == {"番号": "ignored", "文": "text", "分類": "target"}


def test_short_names_in_chinese_are_categories(look):
    names = ["北京", "上海", "广州"]
    content = "\n".join(f"{names[i % 3]},{i * 1.5},{i % 2}" for i in range(40))
    looked = look(f"city,size,label\n{content}\n")
    assert looked.uses()["city"] == "categorical"


@pytest.mark.parametrize(
    ("text", "num_words"),
    [
        ("three plain words", 3),
        ("größer - und schöner", 4),
        ("我喜欢这部电影。", 3.5),
        ("iPhone 我喜欢", 2.5),
        ("สวัสดีครับ", 2),
        ("", 0),
    ],
)
def test_words_are_estimated_from_the_length_without_blanks(text, num_words):
    assert count_words(text) == num_words


def test_a_table_of_short_texts_alone_names_the_option_that_uses_them(look):
    content = "\n".join(f"w{i},{i % 2}" for i in range(60))
    looked = look(f"my word,label\n{content}\n")
    assert looked.codes == ["no_features"]
    assert "set text='my word'" in looked.errors[0].message
    assert look(f"my word,label\n{content}\n", text="my word").errors == []


@pytest.mark.parametrize(
    ("script", "encoding"),
    [("Chinese", "gb18030"), ("Japanese", "shift_jis"), ("Japanese", "euc_jp"),
     ("Thai", "cp874")],
)  # fmt: skip
def test_another_encoding_of_such_a_script_is_refused_and_not_read_as_western(
    look, script, encoding
):
    texts = TEXTS[script]
    content = "\n".join(f"{texts[i % 2]}{i},{i % 2}" for i in range(60))
    looked = look(f"text,label\n{content}\n".encode(encoding, errors="ignore"))
    assert looked.codes == ["bad_encoding"]
    assert "Western European text (line 2; in " in looked.errors[0].message
    assert "or set encoding=NAME to one of gb18030 (Chinese)" in looked.errors[0].message


@pytest.mark.parametrize(
    ("script", "written", "named"),
    [("Chinese", "gbk", "GBK"), ("Japanese", "cp932", "Shift_JIS"),
     ("Japanese", "euc_jp", "euc-jp"), ("Thai", "cp874", "tis-620"), ("Thai", "utf-8", "utf8")],
)  # fmt: skip
def test_a_named_encoding_is_used(look, script, written, named):
    texts = TEXTS[script]
    content = "\n".join(f"{texts[i % 2]}{i},{i % 2}" for i in range(60))
    looked = look(f"text,label\n{content}\n".encode(written), encoding=named)
    assert looked.errors == []
    assert looked.index.encoding == read_encoding(named)
    assert looked.table.column("text")[0].as_py()[:5] in [text[:5] for text in texts]
    assert not any("it was read as" in note for note in looked.report.notes)


def test_a_text_that_is_not_in_the_named_encoding_is_refused(look):
    looked = look("text,label\n料理がとても美味しくて,1\n".encode("shift_jis"), encoding="utf-8")
    assert looked.codes == ["bad_encoding"]
    message = looked.errors[0].message
    assert message.startswith("is not valid UTF-8 (line 2 has the byte 0x97); in cp932 it has '料")


@pytest.mark.parametrize(
    "word", ["Größenänderung", "œuvre élevée", "señorías", "÷÷÷÷÷÷÷÷÷÷÷÷", "€ 5 “übel” …"]
)
def test_western_words_in_one_byte_a_letter_are_read(look, word):
    content = "\n".join(f"{word},{i * 0.7},{i % 2}" for i in range(60))
    looked = look(f"text,size,label\n{content}\n".encode("cp1252"))
    assert looked.errors == []
    assert "it was read as cp1252" in " ".join(looked.report.notes)
