"""Shortens and wraps users' texts in any script, between words where there are blanks."""

import re
import unicodedata
from collections.abc import Callable

ELLIPSIS = "…"
LONGEST_NAME = 80
"""Characters of a name from which it is shortened before it is wrapped."""
_JOINERS = frozenset("\u200c\u200d")
_PART = re.compile(r"[^\s_/-]*[\s_/-]+|[^\s_/-]+")
"""A word with the blanks, or with the marks inside of names, after which a line may end."""


def shorten(text: str, most: int) -> str:
    """Return a text on one line; of a longer one its beginning and its end.

    Args:
        text: The text.
        most: Characters of the result, at least 12.
    """
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    room = most - len(ELLIPSIS) - 2
    return f"{_cut_end(line, room - room // 3)} {ELLIPSIS} {_cut_beginning(line, room // 3)}"


def wrap(text: str, end: str, *, fits: Callable[[str], bool], most_lines: int) -> list[str]:
    """Return the lines of a text, which is shortened if it needs more than `most_lines`.

    Args:
        text: The text.
        end: Text that follows and is never shortened.
        fits: Whether a line is narrow enough.
        most_lines: Largest number of lines.
    """
    kept = shorten(text, LONGEST_NAME)
    lines = _break(kept + end, fits)
    most = len(kept)
    while len(lines) > most_lines and most > 12:
        most -= 4
        lines = _break(shorten(text, max(most, 12)) + end, fits)
    return lines[:most_lines]


def _break(text: str, fits: Callable[[str], bool]) -> list[str]:
    lines, line = [], ""
    for part in _PART.findall(text):
        rest = part
        if not fits((line + rest).rstrip()):
            if line:
                lines.append(line.rstrip())
            line = ""
            while not fits(rest.rstrip()) and (place := _count_fitting(rest, fits)) < len(rest):
                lines.append(rest[:place])
                rest = rest[place:]
        line += rest
    return [*lines, line.rstrip()]


def _count_fitting(text: str, fits: Callable[[str], bool]) -> int:
    """Return how many characters make a line, at least one with the marks that belong to it."""
    fitting = 0
    for place in range(1, len(text) + 1):
        if place < len(text) and _is_inside(text, place):
            continue
        if fitting and not fits(text[:place]):
            break
        fitting = place
    return fitting


def _cut_end(line: str, num: int) -> str:
    """Return at most `num` characters of the beginning, whole words where there are blanks."""
    while _is_inside(line, num):
        num -= 1
    blank = line.rfind(" ", num // 2, num + 1)
    return line[: blank if blank > 0 else num]


def _cut_beginning(line: str, num: int) -> str:
    """Return at most `num` characters of the end, whole words where there are blanks."""
    start = len(line) - num
    while _is_inside(line, start):
        start += 1
    blank = line.find(" ", start - 1, start + num // 2)
    return line[blank + 1 if blank > 0 else start :]


def _is_inside(text: str, place: int) -> bool:
    """Return whether a cut before a place would part a letter from its accents or vowel signs."""
    if not 0 < place < len(text):
        return False
    after = text[place]
    return (
        unicodedata.category(after).startswith("M")
        or after in _JOINERS
        or text[place - 1] in _JOINERS
    )
