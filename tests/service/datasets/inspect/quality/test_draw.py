import numpy as np
import pytest

from redkiln.datasets import rank_within_classes, take_fraction
from service.datasets.inspect.quality.draw import draw_test, rank_together


def draw(labels, copies, *, seed=0):
    labels = np.array(labels)
    ranks = np.array(rank_within_classes(labels.tolist(), seed=seed))
    return draw_test(labels, ranks, np.array(copies))


def order(labels, copies, *, seed=0):
    labels = np.array(labels)
    ranks = np.array(rank_within_classes(labels.tolist(), seed=seed))
    return rank_together(labels, ranks, np.array(copies))


@pytest.mark.parametrize("seed", range(5))
def test_samples_without_copies_are_drawn_and_ordered_as_before(seed):
    labels = [0] * 50 + [1] * 30 + [2]
    ranks = rank_within_classes(labels, seed=seed)
    alone = range(100, 181)
    assert draw(labels, alone, seed=seed).tolist() == take_fraction(labels, ranks, fraction=0.1)
    assert order(labels, alone, seed=seed).tolist() == ranks


def test_a_class_without_copies_is_drawn_as_before():
    labels = [0] * 40 + [1] * 40
    copies = [*range(40), *(40 + number // 2 for number in range(40))]
    known = take_fraction(labels, rank_within_classes(labels, seed=0), fraction=0.1)
    assert draw(labels, copies)[:40].tolist() == known[:40]


@pytest.mark.parametrize("seed", range(20))
def test_copies_are_in_one_split_and_the_fraction_of_each_class_stays(seed):
    labels = [0] * 60 + [1] * 40
    copies = np.r_[np.arange(60) // 2, 60 + np.arange(40) % 31]
    is_test = draw(labels, copies, seed=seed)
    for group in np.unique(copies):
        assert len(set(is_test[copies == group].tolist())) == 1
    assert (is_test[:60].sum(), is_test[60:].sum()) == (6, 4)


def test_copies_in_two_classes_are_in_one_split():
    labels = [0] * 20 + [1] * 20
    copies = [*range(20), *range(20)]
    is_test = draw(labels, copies)
    assert (is_test[:20] == is_test[20:]).all()
    assert is_test[:20].sum() == 2


def test_a_class_of_pairs_still_has_a_test_sample():
    assert sorted(draw([0] * 6, [0, 0, 1, 1, 2, 2]).tolist()) == [False] * 4 + [True] * 2


def test_a_class_that_is_mostly_one_sample_is_divided_all_the_same():
    assert draw([0] * 10, [0] * 9 + [1]).sum() == 1
    assert sorted(order([0] * 10, [0] * 9 + [1])) == list(range(10))


@pytest.mark.parametrize("fraction", [0.05, 0.1, 0.25, 0.5])
def test_every_fraction_for_validation_has_all_copies_of_a_sample_or_none(fraction):
    copies = np.r_[np.arange(30), 30 + np.arange(20) // 2]
    labels = [0] * 50
    held = np.array(take_fraction(labels, order(labels, copies).tolist(), fraction=fraction))
    for group in np.unique(copies):
        assert len(set(held[copies == group].tolist())) == 1
    assert round(50 * fraction) <= held.sum() <= round(50 * fraction) + 1


def test_no_samples_are_not_an_error():
    assert draw([], []).tolist() == []
    assert order([], []).tolist() == []
