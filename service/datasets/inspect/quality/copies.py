"""Warns of samples that occur several times: in a split, across splits, or in two classes.

Shapes: N samples.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.report import problem

MOST_PAIRS = 100
"""Pairs of copies that a warning lists."""


@dataclass(frozen=True)
class Samples:
    """The samples of a data set.

    Attributes:
        noun: Plural name of the samples, such as `images`.
        is_test: (N,) bool, whether a sample is in the test split.
        labels: (N,) class of each sample; None for a regression.
        name: Name of a sample for a message.
    """

    noun: str
    is_test: np.ndarray
    labels: np.ndarray | None
    name: Callable[[int], str]


def check_copies(
    samples: Samples, groups: np.ndarray, *, words: str = "equal to", code: str = "copies"
) -> list[DatasetProblem]:
    """Return warnings about samples of the same group.

    Args:
        samples: The samples.
        groups: (N,) int64; samples with the same number are copies of each other.
        words: How a copy relates to the other sample, as in `equal to`.
        code: Beginning of the warnings' codes.
    """
    _, group = np.unique(groups, return_inverse=True)
    return [
        *_across_splits(samples, group, words=words, code=code),
        *_in_training(samples, group, words=words, code=code),
        *_in_two_classes(samples, group, words=words),
    ]


def _across_splits(
    samples: Samples, group: np.ndarray, *, words: str, code: str
) -> list[DatasetProblem]:
    is_test = samples.is_test
    copied = np.flatnonzero(is_test & np.isin(group, group[~is_test]))
    if not len(copied):
        return []
    trained, firsts = np.unique(group[~is_test], return_index=True)
    originals = np.flatnonzero(~is_test)[firsts[np.searchsorted(trained, group[copied])]]
    pairs = [
        (samples.name(int(copy)), samples.name(int(original)))
        for copy, original in zip(copied[:MOST_PAIRS], originals, strict=False)
    ]
    message = (
        f"{len(copied):,} of {int(is_test.sum()):,} test {samples.noun} are {words} training "
        f"{samples.noun} ({pairs[0][0]} and {pairs[0][1]}), so the test result "
        "will be better than on new data; remove them from one of the splits"
    )
    found = problem(f"{code}_across_splits", message)
    return [found.model_copy(update={"pairs": pairs})]


def _in_training(
    samples: Samples, group: np.ndarray, *, words: str, code: str
) -> list[DatasetProblem]:
    train = np.flatnonzero(~samples.is_test)
    _, firsts, inverse = np.unique(group[train], return_index=True, return_inverse=True)
    again = np.setdiff1d(np.arange(len(train)), firsts)
    if not len(again):
        return []
    one, other = train[firsts[inverse[again[0]]]], train[again[0]]
    message = (
        f"{len(again):,} training {samples.noun} are {words} others "
        f"({samples.name(int(one))} and {samples.name(int(other))}); remove them, unless they "
        "should count several times: they are also split between training and validation"
    )
    return [problem(f"{code}_in_training", message)]


def _in_two_classes(samples: Samples, group: np.ndarray, *, words: str) -> list[DatasetProblem]:
    if samples.labels is None:
        return []
    order = np.lexsort((samples.labels, group))
    same = group[order][1:] == group[order][:-1]
    differ = np.flatnonzero(same & (samples.labels[order][1:] != samples.labels[order][:-1]))
    if not len(differ):
        return []
    one, other = int(order[differ[0]]), int(order[differ[0] + 1])
    num = int(np.isin(group, group[order][differ]).sum())
    message = (
        f"{num:,} {samples.noun} are {words} {samples.noun} of another class "
        f"({samples.name(one)} and {samples.name(other)}); decide for one class"
    )
    return [problem("two_classes", message)]
