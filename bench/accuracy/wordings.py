"""Generated messages to a shop, whose test texts are worded unlike all training texts.

Each text is an opening, a wording of its class with an article, and an ending. Both splits have
other openings, wordings and endings, and the same articles. English texts have typing mistakes.
"""

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

PARTS: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
)
"""What the texts of each language are made of; `{}` in a wording is the article."""
_LEAST_LETTERS = 4
"""Letters of the shortest word that can have a typing mistake."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def write_texts(language: str, *, num_train: int, num_test: int) -> list[tuple[str, str]]:
    """Return different (class, text) pairs: those of the training split, then the others.

    Args:
        language: A key of `PARTS`.
        num_train: Texts of the training split.
        num_test: Texts of the test split.
    """
    parts, generator = PARTS[language], random.Random(0)
    train = islice(_write_endlessly(parts, parts["train"], generator), num_train)
    return [*train, *islice(_write_endlessly(parts, parts["test"], generator), num_test)]


def _write_endlessly(
    parts: dict[str, Any], split: dict[str, Any], generator: random.Random
) -> Iterator[tuple[str, str]]:
    seen = set()
    while True:
        for label, wordings in split["classes"].items():
            wording = generator.choice(wordings).format(generator.choice(parts["articles"]))
            around = generator.choice(split["openings"]), generator.choice(split["endings"])
            joined = parts["blank"].join(filter(None, (around[0], wording, around[1])))
            words = (_mistype(word, parts["mistakes"], generator) for word in joined.split(" "))
            text = " ".join(words)
            if text not in seen:
                seen.add(text)
                yield label, text


def _mistype(word: str, share: float, generator: random.Random) -> str:
    """Swap, drop, double or replace a letter of some words."""
    if len(word) < _LEAST_LETTERS or generator.random() >= share:
        return word
    place = generator.randrange(len(word) - 1)
    first, second = word[place], word[place + 1]
    made = (second + first, second, first + first + second, generator.choice(_LETTERS) + second)
    return word[:place] + generator.choice(made) + word[place + 2 :]
