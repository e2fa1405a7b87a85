"""The baselines of a text classifier: a linear model and trees of weighted counts (TF-IDF)."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from redkiln.cells.blanks import lack_blanks
from worker.export.baselines.baseline import Baseline, Fitted, Rows, Skipped, choose_rows
from worker.export.baselines.learners import (
    fit_linear,
    fit_linear_labels,
    fit_tree_labels,
    fit_trees,
)
from worker.trainer.text.table import TextTable

MOST_TRAINED = 10_000
MOST_TESTED = 20_000
MOST_CHARACTERS = 1000
"""Characters of a text that the baseline reads."""
MOST_BY_PARTS = 2_000_000
"""Characters of all training texts up to which parts of words are counted, which takes about 2.5 µs
for each. Parts were better than words by 3 to 8 points of accuracy, or equal (n=4, 2026-11-29)."""
MOST_FEATURES = 50_000
NUM_DIRECTIONS = 64
"""Numbers that trees read of a text, after truncated singular value decomposition."""


@dataclass
class _Weighted:
    """The weighted counts of a set of texts, which are computed once for all baselines.

    Attributes:
        found: Rows that are trained on, counts of their texts and of the test texts, and a note.
    """

    table: TextTable
    found: tuple[Rows, Any, Any, str] | None = None

    def weigh(self, train: Rows, test: Rows) -> tuple[Rows, Any, Any, str]:
        """Return `found`.

        Raises:
            Skipped: The texts are too many, or empty.
        """
        if self.found is None:
            self.found = _weigh(self.table, train, test)
        return self.found


def list_baselines(table: TextTable) -> list[Baseline]:
    """Return the baselines of a data set of texts."""
    name = "linear models on TF-IDF" if table.has_labels else "linear model on TF-IDF"
    weighted = _Weighted(table)
    return [
        Baseline(name, partial(_fit_linear, weighted)),
        Baseline("gradient-boosted trees on TF-IDF", partial(_fit_trees, weighted)),
    ]


def _weigh(table: TextTable, train: Rows, test: Rows) -> tuple[Rows, Any, Any, str]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    if len(test) > MOST_TESTED:
        raise Skipped(f"{len(test):,} test texts take too long")
    some, note = choose_rows(train, most=MOST_TRAINED)
    texts = _read(table, some)
    analyzer, longest = _choose_parts(texts)
    vectorizer = TfidfVectorizer(
        analyzer=analyzer,
        ngram_range=longest,
        sublinear_tf=True,
        max_features=MOST_FEATURES,
        dtype=np.float32,
    )
    try:
        features = vectorizer.fit_transform(texts)
    except ValueError as error:  # no text has a part
        raise Skipped(str(error)) from error
    return some, features, vectorizer.transform(_read(table, test)), note


def _choose_parts(texts: list[str]) -> tuple[str, tuple[int, int]]:
    """Return what to count, and the shortest and longest n-gram of it."""
    if lack_blanks(texts):
        return "char", (1, 2)
    is_quick = sum(map(len, texts)) <= MOST_BY_PARTS
    return ("char_wb", (2, 4)) if is_quick else ("word", (1, 2))


def _fit_linear(weighted: _Weighted, train: Rows, test: Rows, seconds: float) -> Fitted:
    table = weighted.table
    some, features, asked, note = weighted.weigh(train, test)
    labels = table.labels[some]
    if table.has_labels:
        fitted = fit_linear_labels(features, labels, [asked], seconds=seconds)
    else:
        num = len(table.index.classes)
        fitted = fit_linear(features, labels, [asked], seconds=seconds, classes=num)
    return Fitted(fitted.outputs, "; ".join(filter(None, (note, fitted.note))))


def _fit_trees(weighted: _Weighted, train: Rows, test: Rows, seconds: float) -> Fitted:
    """Train trees on the directions in which the counts vary most."""
    from sklearn.decomposition import TruncatedSVD
    from threadpoolctl import threadpool_limits

    table = weighted.table
    some, features, asked, note = weighted.weigh(train, test)
    num = min(NUM_DIRECTIONS, features.shape[1] - 1, features.shape[0] - 1)
    if num < 1:
        raise Skipped("the texts have too few different words")
    with threadpool_limits(limits=1):
        directions = TruncatedSVD(num, random_state=0).fit(features)
        dense, blocks = directions.transform(features), [directions.transform(asked)]
    labels, plain = table.labels[some], [False] * num
    if table.has_labels:
        fitted = fit_tree_labels(dense, labels, blocks, seconds=seconds, categorical=plain)
    else:
        classes = len(table.index.classes)
        fitted = fit_trees(
            dense, labels, blocks, seconds=seconds, classes=classes, categorical=plain
        )
    return Fitted(fitted.outputs, "; ".join(filter(None, (note, fitted.note))))


def _read(table: TextTable, rows: Rows) -> list[str]:
    return [text[:MOST_CHARACTERS] for text in table.iter_some(rows)]
