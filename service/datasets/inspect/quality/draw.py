"""Draws the test split, and orders samples for validation, so that copies stay together.

Samples without copies are drawn as `redkiln.datasets` does it.

Shapes: N samples.
"""

from collections import Counter

import numpy as np

from redkiln.datasets import TEST_FRACTION, count_taken, take_fraction


def draw_test(labels: np.ndarray, ranks: np.ndarray, copies: np.ndarray) -> np.ndarray:
    """Return (N,) bool, whether a sample is in the test split: the first of each class.

    Copies are all taken, or none of them if they are more than their class has left to take. If
    this leaves a class without any, its smallest group of copies is taken. Copies that make up more
    than half of a class are treated as different samples, because the class could not be divided.

    Args:
        labels: (N,) class of each sample.
        ranks: (N,) random position of each sample within its class, from 0.
        copies: (N,) number that samples share which are copies of each other.
    """
    groups = _group(labels, copies)
    if groups is None:
        taken = take_fraction(labels.tolist(), ranks.tolist(), fraction=TEST_FRACTION)
        return np.array(taken, bool)
    return _draw_groups(labels.tolist(), groups, order=np.lexsort((labels, ranks)))


def _draw_groups(labels: list[int], groups: np.ndarray, *, order: np.ndarray) -> np.ndarray:
    rows_of: dict[int, list[int]] = {}
    for row in order.tolist():
        rows_of.setdefault(int(groups[row]), []).append(row)
    sizes = Counter(labels)
    left = {label: count_taken(size, fraction=TEST_FRACTION) for label, size in sizes.items()}
    is_test, missed = np.zeros(len(labels), bool), set(left)
    drawn = {group: Counter(labels[row] for row in rows) for group, rows in rows_of.items()}
    for group, nums in drawn.items():
        if all(num <= left[label] for label, num in nums.items()):
            is_test[rows_of[group]] = True
            missed -= nums.keys()
            for label, num in nums.items():
                left[label] -= num
    for group in sorted(drawn, key=lambda group: len(rows_of[group])) if missed else ():
        nums = drawn[group]
        if nums.keys() <= missed and all(num < sizes[label] for label, num in nums.items()):
            is_test[rows_of[group]] = True
            missed -= nums.keys()
    return is_test


def rank_together(labels: np.ndarray, ranks: np.ndarray, copies: np.ndarray) -> np.ndarray:
    """Return (N,) int64 positions within each class, from 0, in the order of `ranks`.

    Copies follow all samples without copies and share the position of the first of them, so that
    every fraction of a class has all of them or none. Copies that make up more than half of their
    class are treated as different samples.

    Args:
        labels: (N,) class of each sample.
        ranks: (N,) order of the samples in their classes.
        copies: (N,) number that samples share which are copies of each other.
    """
    rows = np.arange(len(labels))
    groups = _group(labels, copies)
    if groups is None:
        groups = rows
    _, label = np.unique(labels, return_inverse=True)
    _, group, sizes = np.unique(
        groups * (int(label.max(initial=0)) + 1) + label, return_inverse=True, return_counts=True
    )
    firsts = np.full(len(sizes), len(rows) + 1)
    np.minimum.at(firsts, group, ranks)
    order = np.lexsort((ranks, group, firsts[group], sizes[group], label))
    is_first = np.ones(len(rows), bool)
    is_first[1:] = np.diff(group[order]) != 0
    begins = np.concatenate([[0], np.cumsum(np.bincount(label))])[label[order]]
    positions = np.empty(len(rows), np.int64)
    positions[order] = np.maximum.accumulate(np.where(is_first, rows, 0)) - begins
    return positions


def _group(labels: np.ndarray, copies: np.ndarray) -> np.ndarray | None:
    """Return (N,) group numbers, equal for samples that stay together; None without copies."""
    _, group, sizes = np.unique(copies, return_inverse=True, return_counts=True)
    if len(sizes) == len(copies):
        return None
    _, label, of_class = np.unique(labels, return_inverse=True, return_counts=True)
    _, pair, num = np.unique(group * len(of_class) + label, return_inverse=True, return_counts=True)
    is_most = 2 * num[pair] > of_class[label]
    is_alone = np.isin(group, group[is_most & (sizes[group] > 1)])
    return np.where(is_alone, len(sizes) + np.arange(len(copies)), group)
