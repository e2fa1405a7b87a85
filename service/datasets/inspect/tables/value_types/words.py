"""Counts the words of a text, also in scripts that put no blanks between words."""

import re

_HAN_AND_KANA = re.compile(
    "[\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff]"
)
"""Characters of Chinese and Japanese."""
_SOUTH_EAST_ASIAN = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
"""Characters of Thai, Lao, Burmese and Khmer."""
_CHARACTERS_A_WORD = ((_HAN_AND_KANA, 2), (_SOUTH_EAST_ASIAN, 5))


def count_words(text: str) -> float:
    """Return the number of words; an estimate from the length where no blanks separate them.

    A Chinese or Japanese word has about two characters, a Thai word about five.
    """
    num_words = 0.0
    rest = text
    for script, length in _CHARACTERS_A_WORD:
        rest, found = script.subn(" ", rest)
        num_words += found / length
    if not num_words:
        return len(text.split())
    return num_words + sum(any(map(str.isalnum, word)) for word in rest.split())
