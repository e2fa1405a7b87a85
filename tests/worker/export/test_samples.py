import numpy as np
import pytest

from redkiln.predict.verify import FEW
from worker.export.samples import choose_samples, choose_saved


def test_the_file_answers_the_whole_test_split_and_the_trained_model_a_part_of_a_large_one():
    samples = choose_samples(test=np.arange(1000, 3000), others=np.arange(1000))
    assert samples.rows.tolist() == list(range(1000, 3000))
    assert samples.num_test == 2000
    places = samples.places
    assert 1000 <= len(places) < 1000 + FEW
    assert places[:FEW].tolist() == list(range(FEW))
    assert places[-1] == 1999
    assert np.diff(places).max() == 3


def test_both_answer_all_of_a_test_split_that_is_not_large():
    samples = choose_samples(test=np.arange(1000), others=np.arange(1000, 1500))
    assert samples.places.tolist() == list(range(1000))


def test_a_small_test_split_is_filled_up_for_comparison_but_not_for_scoring():
    samples = choose_samples(test=np.array([900, 901]), others=np.arange(900))
    assert len(samples.rows) == 256
    assert samples.rows[:3].tolist() == [900, 901, 0]
    assert samples.num_test == 2


def test_a_tiny_data_set_is_compared_completely():
    assert len(choose_samples(test=np.array([5]), others=np.arange(3)).rows) == 4


@pytest.mark.parametrize(
    ("num", "bytes_each", "count"),
    [(100, 3072, 100), (10_000, 3072, 2000), (10_000, 150_528, 256), (10_000, 65_536, 512)],
)
def test_saved_samples_are_evenly_spaced_and_limited(num, bytes_each, count):
    saved = choose_saved(num, bytes_each=bytes_each)
    assert len(set(saved.tolist())) == count
    assert (saved[0], saved[-1]) == (0, num - 1)
    assert np.all(np.diff(saved) > 0)
