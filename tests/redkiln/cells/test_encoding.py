import pytest

from redkiln.cells.encoding import OtherScriptError, find_encoding_of_names

ROWS = "file,labels\nBild_1.png,rot\nBild_2.png,{}\n"


@pytest.mark.parametrize(
    ("name", "encoding", "found"),
    [
        ("grün", "cp1252", "cp1252"),
        ("forêt", "cp1252", "cp1252"),
        ("grün", "utf-8", "utf-8"),
        ("grün", "utf-8-sig", "utf-8-sig"),
        ("зелёный", "utf-16", "utf-16"),
    ],
)
def test_names_of_western_european_languages_are_recognised(name, encoding, found):
    assert find_encoding_of_names(ROWS.format(name).encode(encoding)) == found


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("猫", "shift_jis"),
        ("緑", "shift_jis"),
        ("红色", "gb18030"),
        ("安", "gb18030"),
        ("紅色", "big5"),
        ("빨강", "euc_kr"),
        ("да", "cp1251"),
    ],
)
def test_other_names_are_refused_and_shown_in_each_encoding(name, encoding):
    with pytest.raises(OtherScriptError) as raised:
        find_encoding_of_names(ROWS.format(name).encode(encoding))
    assert raised.value.line == 3
    assert f"in {encoding} it has {name!r}" in str(raised.value)
