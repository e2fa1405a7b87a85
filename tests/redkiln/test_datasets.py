import itertools

import pytest

from redkiln.datasets import BUILTINS, rank_within_classes, take_fraction

LABELS = [0] * 50 + [1] * 30 + [2] * 3 + [3]


def taken(fraction, labels=LABELS, seed=0):
    ranks = rank_within_classes(labels, seed=seed)
    flags = take_fraction(labels, ranks, fraction=fraction)
    return {index for index, flag in enumerate(flags) if flag}


def count(chosen, label):
    return sum(LABELS[index] == label for index in chosen)


def test_ranks_order_the_samples_of_each_class():
    ranks = rank_within_classes(LABELS, seed=0)
    for label in set(LABELS):
        of_class = [rank for rank, own in zip(ranks, LABELS, strict=True) if own == label]
        assert sorted(of_class) == list(range(len(of_class)))


def test_only_the_seed_decides_the_order():
    assert rank_within_classes(LABELS, seed=1) == rank_within_classes(LABELS, seed=1)
    assert rank_within_classes(LABELS, seed=1) != rank_within_classes(LABELS, seed=2)


def test_ranks_do_not_change_with_the_code():
    assert rank_within_classes([0] * 6 + [1] * 4, seed=7) == [4, 2, 1, 3, 0, 5, 3, 0, 2, 1]


@pytest.mark.parametrize(
    ("fraction", "expected"),
    [
        (0.0, [0, 0, 0, 0]),
        (0.1, [5, 3, 1, 0]),
        (0.5, [25, 15, 2, 0]),
    ],
)
def test_a_fraction_takes_at_least_one_sample_of_each_class_and_leaves_one(fraction, expected):
    chosen = taken(fraction)
    assert [count(chosen, label) for label in range(4)] == expected


def test_a_larger_fraction_contains_a_smaller_one():
    nested = [taken(fraction / 20) for fraction in range(11)]
    for smaller, larger in itertools.pairwise(nested):
        assert smaller <= larger


def test_no_samples_are_not_an_error():
    assert rank_within_classes([], seed=0) == []
    assert take_fraction([], [], fraction=0.1) == []


@pytest.mark.parametrize("name", BUILTINS)
def test_a_builtin_set_is_known_by_its_name(name):
    builtin = BUILTINS[name]
    assert builtin.name == name
    if builtin.task.endswith("regression"):
        assert builtin.classes == builtin.class_counts == []
    else:
        assert len(builtin.classes) > 1
        assert sum(builtin.class_counts) == builtin.num_samples
