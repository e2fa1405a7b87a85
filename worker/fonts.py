"""Finds fonts of this machine that have the characters of a text, for pictures.

DejaVu Sans comes with matplotlib and has Latin letters with all accents, Cyrillic, Greek and
Arabic. For other scripts, the fonts of the system are searched.
"""

import importlib.util
import os
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

FONT_DIRS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts")
_SUFFIXES = frozenset({".ttf", ".otf", ".ttc"})
_UNUSUAL = re.compile(r"bold|italic|oblique|light|thin|black|condensed|mono|serif|lastresort", re.I)
_NO_CHARACTER = "\uffff"
_SIZE = 12


def find_fonts(texts: Iterable[str]) -> list[Path]:
    """Return fonts that together have the characters of some texts, DejaVu Sans first.

    Characters that no font of the machine has are drawn as boxes.
    """
    missing = {c for text in texts for c in text if c.isprintable() and not c.isspace()}
    chosen = [_find_dejavu()]
    missing -= _covered(chosen[0], missing)
    for path in _list_fonts() if missing else ():
        if found := _covered(path, missing):
            chosen.append(path)
            missing -= found
        if not missing:
            break
    return chosen


def load_fonts(texts: Iterable[str], *, size: int) -> "list[FreeTypeFont]":
    """Load the fonts of `find_fonts` for Pillow.

    Args:
        texts: The texts to draw.
        size: Size in pixels.
    """
    from PIL import ImageFont

    return [ImageFont.truetype(path, size) for path in find_fonts(texts)]


def split_by_font(text: str, fonts: "Sequence[FreeTypeFont]") -> "list[tuple[str, FreeTypeFont]]":
    """Divide a text into parts that one font can draw; the first font draws unknown characters."""

    def choose(character: str) -> int:
        having = (at for at, font in enumerate(fonts) if _has(font, character))
        return next(having, 0)

    return [("".join(part), fonts[at]) for at, part in groupby(text, key=choose)]


def _find_dejavu() -> Path:
    """Return DejaVu Sans in the folder of matplotlib, whose import would take half a second."""
    found = importlib.util.find_spec("matplotlib")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf"


@lru_cache(maxsize=1)
def _list_fonts() -> list[Path]:
    """Return the fonts of the system, upright ones of medium weight first."""
    paths = {
        path
        for folder in FONT_DIRS
        # Unlike Path's, this leaves `~` if a container's user has no home.
        for path in Path(os.path.expanduser(folder)).rglob("*")  # noqa: PTH111
        if path.suffix.lower() in _SUFFIXES
    }
    return sorted(paths, key=lambda path: (bool(_UNUSUAL.search(path.stem)), str(path)))


def _covered(path: Path, characters: set[str]) -> set[str]:
    """Return the characters that a font has; none if it cannot be read."""
    from PIL import ImageFont

    try:
        font = ImageFont.truetype(path, _SIZE)
    except OSError:
        return set()
    return {character for character in characters if _has(font, character)}


def _has(font: "FreeTypeFont", character: str) -> bool:
    """Return whether a font draws a character otherwise than one that does not exist."""
    return _draw(font, character) != _draw(font, _NO_CHARACTER)


def _draw(font: "FreeTypeFont", character: str) -> tuple[tuple[int, int], bytes]:
    mask = font.getmask(character)
    return mask.size, bytes(mask)
