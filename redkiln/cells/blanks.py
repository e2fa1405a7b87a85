"""Recognises texts in scripts without blanks between words, whose parts are their characters."""

from collections.abc import Sequence

from redkiln.cells.prose import NO_BLANKS

LONG_WORD = 12
"""Mean characters between blanks above which a script that is not listed seems to have none."""
LEAST_SHARE = 0.3
"""Share of characters of the listed scripts from which texts are in them. Others may be digits, or
names in Latin letters."""


def lack_blanks(texts: Sequence[str]) -> bool:
    """Return whether texts are in scripts without blanks between words.

    Commas and full stops say nothing about words, so short sentences in Chinese count, too.
    """
    words = [text.split() for text in texts]
    num_words = sum(map(len, words))
    num_characters = sum(len(word) for found in words for word in found)
    if num_characters > LONG_WORD * num_words:
        return True
    num_listed = sum(len(NO_BLANKS.findall(text)) for text in texts if not text.isascii())
    return num_characters > 0 and num_listed >= LEAST_SHARE * num_characters
