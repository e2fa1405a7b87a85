import numpy as np
import pytest

from worker.export.variants.chance import describe_chance, find_doubt

LABELS = np.zeros(100, dtype=np.int64)


def answers(wrong):
    """Outputs (100, 2) of two classes that are wrong for some samples."""
    outputs = np.tile(np.array([1.0, 0.0], dtype=np.float32), (100, 1))
    outputs[wrong] = outputs[wrong, ::-1]
    return outputs


def test_the_doubt_comes_from_the_answers_that_change():
    assert find_doubt(answers([]), answers([]), LABELS) == 0.0
    assert find_doubt(answers([1, 2]), answers([1, 2]), LABELS) == 0.0
    # One lost, one won: each change is 1 or -1, of variance 2 / 100.
    assert find_doubt(answers([1]), answers([2]), LABELS) == pytest.approx(0.1 * 0.02**0.5)


def test_a_drop_that_may_be_chance_is_described_with_its_interval():
    text = describe_chance(0.02, doubt=0.0141, allowed=0.01, num=1790)
    assert text == (
        " (with 1,790 test samples, the 95 % interval of this is -0.0076 to 0.0476: they are too "
        "few to say that the file is really worse)"
    )


@pytest.mark.parametrize("doubt", [0.0, 0.005])
def test_a_drop_that_is_clearly_too_large_needs_no_remark(doubt):
    assert describe_chance(0.04, doubt=doubt, allowed=0.01, num=179) == ""
