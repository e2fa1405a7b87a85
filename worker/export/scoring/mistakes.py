"""Which test samples a classifier gets wrong.

Shapes: N samples, C classes.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from worker.export.target import Outputs

MOST_MISTAKES = 500
PER_CELL = 10
"""Mistakes of one true and predicted class that are chosen before more of another."""


@dataclass(frozen=True)
class WrongSample:
    """A test sample with a wrong prediction; `true` and `predicted` are labels."""

    sample: int
    true: int
    predicted: int
    confidence: float
    true_confidence: float


def find_mistakes(outputs: Outputs, targets: NDArray[np.int64]) -> list[WrongSample]:
    """Return the wrong samples, most confident first; of very many, some of each kind.

    Args:
        outputs: (N, C) logits.
        targets: (N,) labels.
    """
    logits = outputs.astype(np.float64)
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares = exponents / exponents.sum(axis=1, keepdims=True)
    predicted = outputs.argmax(axis=1)
    wrong = np.flatnonzero(predicted != targets)
    confidence = shares[wrong, predicted[wrong]]
    ordered = wrong[np.argsort(-confidence, kind="stable")]
    found = [
        WrongSample(
            sample=int(row),
            true=int(targets[row]),
            predicted=int(predicted[row]),
            confidence=round(float(shares[row, predicted[row]]), 6),
            true_confidence=round(float(shares[row, targets[row]]), 6),
        )
        for row in ordered
    ]
    return _choose(found)


def _choose(found: Sequence[WrongSample]) -> list[WrongSample]:
    """Return at most MOST_MISTAKES in the same order: the first of each cell, then the others."""
    if len(found) <= MOST_MISTAKES:
        return list(found)
    seen: dict[tuple[int, int], int] = defaultdict(int)
    turns = []
    for mistake in found:
        cell = (mistake.true, mistake.predicted)
        turns.append(seen[cell] // PER_CELL)
        seen[cell] += 1
    first = np.argsort(turns, kind="stable")[:MOST_MISTAKES]
    return [found[place] for place in sorted(first.tolist())]
