import numpy as np

from service.datasets.inspect.quality.copies import MOST_PAIRS, Samples, check_copies


def test_the_first_copies_across_splits_are_listed_with_their_originals():
    is_test = np.array([False, True, False, True, True])
    samples = Samples(noun="images", is_test=is_test, labels=None, name=str)
    (found,) = check_copies(samples, np.array([7, 3, 3, 9, 7]))
    assert found.code == "copies_across_splits"
    assert found.pairs == [("1", "2"), ("4", "0")]
    assert found.count == 2
    assert found.message.startswith("2 of 3 test images are equal to training images (1 and 2)")
    assert found.message.endswith("split. GET /v1/datasets/{id} lists all of them under `pairs`")


def test_one_pair_of_copies_needs_no_list():
    samples = Samples("images", np.array([False, True]), labels=None, name=str)
    (found,) = check_copies(samples, np.array([3, 3]))
    assert found.message.startswith("1 of 1 test images is equal to a training image (1 and 0)")
    assert found.message.endswith("Remove it from the training or from the test split")


def test_a_test_split_that_redkiln_drew_is_not_to_be_changed_by_the_user():
    samples = Samples("texts", np.array([False, True]), None, str, is_drawn=True)
    for some in (samples, samples.pick(np.arange(2))):
        (found,) = check_copies(some, np.array([3, 3]))
        assert found.message.endswith("Keep only one copy of it in your data")


def test_samples_that_were_left_out_as_equal_are_not_counted_silently():
    samples = Samples("images", np.array([False, False, True, True, True]), None, str)
    rest = samples.pick(np.array([0, 1, 3, 4]))
    (found,) = check_copies(rest, np.array([1, 2, 2, 3]), words="nearly equal to")
    expected = "of the 2 other test images, 1 is nearly equal to a training image (3 and 1)"
    assert found.message.startswith(expected)
    (found,) = check_copies(samples.pick(np.arange(1, 5)), np.array([2, 2, 3, 4]))
    assert found.message.startswith("1 of 3 test images is equal")


def test_a_near_copy_that_occurs_several_times_counts_as_often():
    is_test = np.array([False, False, True, True, True, True])
    samples = Samples("texts", is_test, labels=None, name=str)
    equal = np.array([0, 1, 2, 2, 2, 3])
    (found,) = check_copies(samples.pick_first(equal), np.array([5, 6, 5, 7]), words="much like")
    assert found.message.startswith("3 of 4 test texts are much like training texts (2 and 0)")
    assert (found.count, found.pairs) == (3, [("2", "0")])
    # A text that is equal to a training text is counted elsewhere.
    again = np.array([0, 1, 2, 2, 2, 1])
    (found,) = check_copies(samples.pick_first(again), np.array([5, 6, 5]), words="much like")
    assert found.message.startswith("of the 3 other test texts, 3 are much like training texts")


def test_test_samples_that_are_equal_to_each_other_make_intervals_too_narrow():
    is_test = np.array([False, True, True, True, True])
    samples = Samples("texts", is_test, labels=None, name=str)
    (found,) = check_copies(samples, np.array([1, 2, 3, 2, 2]))
    assert (found.code, found.count) == ("copies_in_test", 2)
    assert found.pairs == [("3", "1"), ("4", "1")]
    assert found.message == (
        "2 of 4 test texts are equal to others of the test split (3 and 1). They say less than "
        "different ones, so the 95 % intervals of the test result are narrower than they should "
        "be. Remove them from it. GET /v1/datasets/{id} lists all of them under `pairs`"
    )
    drawn = Samples("texts", is_test, None, str, is_drawn=True)
    (found,) = check_copies(drawn, np.array([1, 2, 3, 2, 4]))
    assert "1 of 4 test texts is equal to another of the test split (3 and 1)" in found.message
    assert found.message.endswith("Keep only one copy of it in your data")


def test_near_copies_in_training_may_make_the_validation_too_good():
    samples = Samples("texts", np.zeros(4, bool), labels=None, name=str)
    groups = np.array([1, 1, 1, 2])
    (found,) = check_copies(samples, groups, words="nearly equal to", code="near_copies")
    assert found.message == (
        "2 training texts are nearly equal to others (1 and 0). Remove them, unless they should "
        "count several times: some copies may be in training and others in validation, so the "
        "validation result may be too good. GET /v1/datasets/{id} lists all of them under `pairs`"
    )
    assert found.pairs == [("1", "0"), ("2", "0")]
    (found,) = check_copies(samples, groups)
    assert "validation" not in found.message


def test_not_all_of_many_pairs_are_listed():
    num = MOST_PAIRS + 5
    is_test = np.arange(2 * num) >= num
    samples = Samples(noun="rows", is_test=is_test, labels=None, name=str)
    (found,) = check_copies(samples, np.tile(np.arange(num), 2))
    assert len(found.pairs) == MOST_PAIRS
    assert f"lists the first {MOST_PAIRS} under `pairs`" in found.message
    assert found.pairs[-1] == (str(num + MOST_PAIRS - 1), str(MOST_PAIRS - 1))


def test_copies_in_the_validation_split_are_reported_apart_from_those_in_training():
    is_test = np.array([False, False, False, False, True])
    own = np.array([False, False, False, True, False])
    samples = Samples("rows", is_test=is_test, labels=None, name=str, is_validation=own)
    valid, train = check_copies(samples, np.array([7, 7, 3, 3, 9]))
    assert (valid.code, valid.pairs) == ("copies_in_validation", [("3", "2")])
    assert "1 of 1 validation rows is equal to a training row (3 and 2)" in valid.message
    assert "training may choose the wrong epoch as the best" in valid.message
    assert train.code == "copies_in_training"
    assert train.message.endswith("Remove it, unless it should count several times")


def test_a_copy_of_an_own_validation_sample_in_the_test_split_is_reported():
    own = np.array([False, True, False])
    samples = Samples("rows", np.array([False, False, True]), None, str, own)
    (found,) = check_copies(samples, np.array([1, 2, 2]))
    assert (found.code, found.pairs) == ("copies_across_splits", [("2", "1")])


def test_a_copy_with_another_class_is_not_said_to_count_several_times():
    samples = Samples("images", np.zeros(5, bool), np.array([0, 1, 0, 1, 1]), str)
    found = {one.code: one.pairs for one in check_copies(samples, np.array([3, 3, 4, 5, 5]))}
    assert found == {"two_classes": [("0", "1")], "copies_in_training": [("4", "3")]}
    (found,) = check_copies(samples, np.array([3, 3, 4, 5, 6]))
    assert found.code == "two_classes"
