"""The baseline of a text classifier: a linear model of weighted word counts (TF-IDF)."""

from functools import partial

import numpy as np

from worker.export.baselines.baseline import Baseline, Fitted, Rows, Skipped, choose_rows
from worker.export.baselines.learners import fit_linear, fit_linear_labels
from worker.trainer.text.table import TextTable

MOST_TRAINED = 10_000
MOST_TESTED = 20_000
MOST_CHARACTERS = 1000
"""Characters of a text that the baseline reads."""
LONG_WORD = 12
"""Mean characters between spaces above which a script seems to have no spaces."""
MOST_FEATURES = 50_000


def list_baselines(table: TextTable) -> list[Baseline]:
    """Return the baseline of a data set of texts."""
    name = "linear models on TF-IDF" if table.has_labels else "linear model on TF-IDF"
    return [Baseline(name, partial(_fit, table))]


def _fit(table: TextTable, train: Rows, test: Rows, seconds: float) -> Fitted:
    from sklearn.feature_extraction.text import TfidfVectorizer

    if len(test) > MOST_TESTED:
        raise Skipped(f"{len(test):,} test texts take too long")
    some, note = choose_rows(train, most=MOST_TRAINED)
    texts, asked = _read(table, some), _read(table, test)
    has_spaces = sum(map(len, texts)) <= LONG_WORD * sum(len(text.split()) for text in texts)
    vectorizer = TfidfVectorizer(
        analyzer="word" if has_spaces else "char",
        ngram_range=(1, 2),
        sublinear_tf=True,
        max_features=MOST_FEATURES,
        dtype=np.float32,
    )
    try:
        features = vectorizer.fit_transform(texts)
    except ValueError as error:  # no text has a word
        raise Skipped(str(error)) from error
    labels, blocks = table.labels[some], [vectorizer.transform(asked)]
    if table.has_labels:
        fitted = fit_linear_labels(features, labels, blocks, seconds=seconds)
    else:
        num = len(table.index.classes)
        fitted = fit_linear(features, labels, blocks, seconds=seconds, classes=num)
    return Fitted(fitted.outputs, "; ".join(filter(None, (note, fitted.note))))


def _read(table: TextTable, rows: Rows) -> list[str]:
    return [text[:MOST_CHARACTERS] for text in table.iter_some(rows)]
