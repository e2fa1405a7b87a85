import numpy as np

from service.datasets.inspect.quality.copies import MOST_PAIRS, Samples, check_copies


def test_the_first_copies_across_splits_are_listed_with_their_originals():
    is_test = np.array([False, True, False, True, True])
    samples = Samples(noun="images", is_test=is_test, labels=None, name=str)
    (found,) = check_copies(samples, np.array([7, 3, 3, 9, 7]))
    assert found.code == "copies_across_splits"
    assert found.pairs == [("1", "2"), ("4", "0")]
    assert found.message.startswith("2 of 3 test images are equal to training images (1 and 2)")


def test_not_all_of_many_pairs_are_listed():
    num = MOST_PAIRS + 5
    is_test = np.arange(2 * num) >= num
    samples = Samples(noun="rows", is_test=is_test, labels=None, name=str)
    (found,) = check_copies(samples, np.tile(np.arange(num), 2))
    assert len(found.pairs) == MOST_PAIRS
    assert found.pairs[-1] == (str(num + MOST_PAIRS - 1), str(MOST_PAIRS - 1))


def test_copies_in_the_validation_split_are_reported_apart_from_those_in_training():
    is_test = np.array([False, False, False, False, True])
    own = np.array([False, False, False, True, False])
    samples = Samples("rows", is_test=is_test, labels=None, name=str, is_validation=own)
    valid, train = check_copies(samples, np.array([7, 7, 3, 3, 9]))
    assert (valid.code, valid.pairs) == ("copies_in_validation", [("3", "2")])
    assert "1 of 1 validation rows are equal to training rows (3 and 2)" in valid.message
    assert "training may choose the wrong epoch as the best" in valid.message
    assert train.code == "copies_in_training"
    assert train.message.endswith("unless they should count several times")


def test_a_copy_of_an_own_validation_sample_in_the_test_split_is_reported():
    own = np.array([False, True, False])
    samples = Samples("rows", np.array([False, False, True]), None, str, own)
    (found,) = check_copies(samples, np.array([1, 2, 2]))
    assert (found.code, found.pairs) == ("copies_across_splits", [("2", "1")])
