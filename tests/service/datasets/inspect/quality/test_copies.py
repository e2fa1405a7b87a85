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
