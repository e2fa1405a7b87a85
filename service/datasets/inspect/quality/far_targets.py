"""Warns of values of a regression's target that are far from all others, such as a typing mistake.

Shapes: N rows.
"""

from collections.abc import Callable

import numpy as np

from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.report import problem, quote

FACTOR = 50.0
"""How many times as far from the median as all other values. The largest of many values with a long
tail, such as prices, is rarely so far from the next one."""
MOST_FAR = 3
"""Most values that are far from all others; more are usual in these data."""


def check_far_targets(
    targets: np.ndarray, *, name: str, locate: Callable[[int], str]
) -> list[DatasetProblem]:
    """Return a warning about targets (N,) that are far from all others.

    Args:
        targets: The values.
        name: Name of the target.
        locate: Returns the place of a row in the user's file, such as `line 7`.
    """
    distances = np.abs(targets - np.median(targets))
    order = np.argsort(-distances)
    nearer = distances[order[1 : MOST_FAR + 1]]
    apart = np.flatnonzero(
        (nearer > 0) & (distances[order[:MOST_FAR]][: len(nearer)] >= FACTOR * nearer)
    )
    if not len(apart):
        return []
    num = int(apart[-1]) + 1
    rest = targets[order[num:]]
    listed = ", ".join(f"{targets[row]:g} ({locate(int(row))})" for row in order[:num])
    verb = "is" if num == 1 else "are"
    message = (
        f"the target {quote(name)}: {listed} {verb} far from all other values, which are "
        f"{rest.min():g} to {rest.max():g}; correct what is a typing mistake, because so large an "
        "error outweighs all others in training and in the metrics"
    )
    return [problem("far_target", message)]
