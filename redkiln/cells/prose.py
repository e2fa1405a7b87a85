"""Finds the words of a text, for the columns that are made from prose in a table.

The service derives these columns when it inspects a table. Reports contain the code of this module,
so that users of a model derive the same numbers.
"""

import re

RUN = re.compile(r"[^\W_]+")
NO_BLANKS = re.compile(
    "[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"
)


def find_words(text: str) -> set[str]:
    """Return the words of a text in lower case, and pairs of characters of scripts without blanks.

    These scripts are Chinese, Japanese, Thai, Lao, Burmese and Khmer.
    """
    words: set[str] = set()
    for run in RUN.findall(text.lower()):
        if NO_BLANKS.search(run):
            words.update(run[place : place + 2] for place in range(max(1, len(run) - 1)))
        else:
            words.add(run)
    return words
