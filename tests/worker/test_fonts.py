import shutil
import unicodedata

import pytest

from worker import fonts
from worker.fonts import find_fonts, load_fonts, split_by_font

ARC = "\u2312"
"""A character that STIX has and DejaVu Sans lacks."""


@pytest.fixture
def stix(tmp_path, monkeypatch):
    """A machine whose only font is STIX, with a damaged file next to it."""
    folder = tmp_path / "fonts" / "stix"
    folder.mkdir(parents=True)
    source = find_fonts([])[0].parent / "STIXGeneral.ttf"
    shutil.copy(source, folder / "STIXGeneral.ttf")
    (folder / "Damaged.ttf").write_bytes(b"no font")
    monkeypatch.setattr(fonts, "FONT_DIRS", (str(tmp_path / "fonts"), str(tmp_path / "none")))
    fonts._list_fonts.cache_clear()
    yield folder / "STIXGeneral.ttf"
    fonts._list_fonts.cache_clear()


def test_latin_letters_with_accents_need_no_font_of_the_system():
    letters = "".join(map(chr, range(0xC0, 0x250)))
    assert unicodedata.name(letters[0]) == "LATIN CAPITAL LETTER A WITH GRAVE"
    (font,) = find_fonts([letters, "Ёжик", "Άλφα"])
    assert font.name == "DejaVuSans.ttf"
    (loaded,) = load_fonts([letters], size=12)
    assert len({fonts._draw(loaded, letter) for letter in "éèêëeőřž"}) == 8


def test_other_characters_use_a_font_of_the_system(stix):
    assert [path.name for path in find_fonts([f"a{ARC}b"])] == ["DejaVuSans.ttf", stix.name]
    assert len(find_fonts(["plain"])) == 1


def test_a_text_is_divided_among_the_fonts(stix):
    loaded = load_fonts([f"a{ARC}"], size=12)
    parts = split_by_font(f"ab {ARC}c", loaded)
    assert [(part, loaded.index(font)) for part, font in parts] == [("ab ", 0), (ARC, 1), ("c", 0)]


def test_a_character_that_no_font_has_is_left_to_the_first_font(stix):
    loaded = load_fonts(["\U000f0000"], size=12)
    assert len(loaded) == 1
    assert split_by_font("a\U000f0000", loaded) == [("a\U000f0000", loaded[0])]
