"""Replaces columns of prose in a table by one column for each of their most telling words.

Shapes: N rows, R training rows that are read, W words, T targets (one, or one for each class).
"""

import shlex
from collections import Counter

import numpy as np
import pyarrow as pa

from redkiln.cells.prose import find_words
from redkiln.tables import Derived
from service.datasets.inspect.report import WORDS_NOTE, quote_use, show
from service.datasets.inspect.tables.profile import Profile
from service.datasets.inspect.tables.roles import Roles, Use
from service.datasets.inspect.tables.targets import Targets

MOST_WORDS = 64
_MOST_CELLS = 20_000_000
"""Most values of all words of a column, which limits the memory of large tables."""
_MOST_READ = 20_000
"""Training rows that words are chosen from, evenly spaced."""
_MOST_CANDIDATES = 2_000
_LEAST_ROWS = 5
_LEAST_SHARE = 0.01
"""Fewest rows, and smallest share of rows, with and without a word."""
_MOST_CLASSES = 20
_NAMED = 5


def derive_words(
    profiles: dict[str, Profile], roles: Roles, targets: Targets, *, train: np.ndarray
) -> None:
    """Replace columns of prose by numbers: 1 if the text has a word, else 0.

    Args:
        profiles: Profiles of all columns; receives those of the words.
        roles: Roles of the columns; receives those of the words, and notes.
        targets: Target of each row.
        train: (R,) rows for training. The words are chosen from them alone.
    """
    for name in roles.of_type("text"):
        texts = profiles[name].texts.to_pylist()
        words = _choose_words(texts, targets, train)
        if not words:
            roles.uses[name] = Use("ignored", "no word occurs in enough rows (prose)")
            continue
        derived = _derive(name, texts, words, taken=set(profiles))
        profiles.update({found.name: found for found in derived})
        roles.replace(
            name,
            Use("ignored", f"{WORDS_NOTE} {len(words)} columns"),
            {found.name: Use("numeric") for found in derived},
        )
        roles.notes.append(_describe(name, words))


def _describe(name: str, words: list[str]) -> str:
    text = shlex.quote(show(name))
    shown = ", ".join(map(show, words[:_NAMED])) + (", ..." if len(words) > _NAMED else "")
    return (
        f"column {show(name)} is prose; the {len(words)} words that say most about the target "
        f"became columns ({shown}); to leave them out: "
        f"column={quote_use(name, 'ignored')}; to classify by the text alone: text={text}"
    )


def _choose_words(texts: list[str | None], targets: Targets, train: np.ndarray) -> list[str]:
    """Return the words whose rows have the most unusual targets, the best one first."""
    rows = train[:: -(-len(train) // _MOST_READ)]
    found = [find_words(texts[row] or "") for row in rows]
    counts = Counter(word for words in found for word in words)
    least = max(_LEAST_ROWS, _LEAST_SHARE * len(rows))
    known = [
        word
        for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        if least <= count <= len(rows) - least
    ][:_MOST_CANDIDATES]
    standard = _standardise(targets, rows)
    places = {word: place for place, word in enumerate(known)}
    sums = np.zeros((len(known), standard.shape[1]))
    for words, values in zip(found, standard, strict=True):
        sums[[places[word] for word in words if word in places]] += values
    # The mean of n standardised values by chance has a standard deviation of 1 / sqrt(n).
    scores = np.abs(sums).max(axis=1) / np.sqrt([counts[word] for word in known])
    most = min(MOST_WORDS, _MOST_CELLS // len(texts))
    return [known[place] for place in np.argsort(-scores, kind="stable")[:most]]


def _standardise(targets: Targets, rows: np.ndarray) -> np.ndarray:
    """Return (R, T) targets with mean 0 and standard deviation 1."""
    if targets.numbers is not None:
        values = targets.numbers[rows, None]
    else:
        labels = targets.labels[rows]
        frequent = [label for label, _ in Counter(labels.tolist()).most_common(_MOST_CLASSES)]
        values = (labels[:, None] == np.array(frequent)).astype(np.float64)
    std = values.std(axis=0)
    standard: np.ndarray = (values - values.mean(axis=0)) / np.where(std > 0, std, 1.0)
    return standard


def _derive(
    name: str, texts: list[str | None], words: list[str], *, taken: set[str]
) -> list[Profile]:
    """Return a numeric column for each word, (N,) 1 or 0."""
    places = {word: place for place, word in enumerate(words)}
    has_word = np.zeros((len(words), len(texts)))
    for row, text in enumerate(texts):
        for word in find_words(text or "") & places.keys():
            has_word[places[word], row] = 1.0
    nothing = np.zeros(len(texts), bool)
    columns = []
    for word, numbers in zip(words, has_word, strict=True):
        own = f"{name}.{word}"
        while own in taken:
            own += "_"
        origin = Derived(column=name, part="word", word=word)
        raw = pa.chunked_array([pa.array(numbers)])
        columns.append(Profile(own, raw, nothing, numbers, nothing, derived=origin))
    return columns
