import numpy as np
import pytest

from redkiln.spec.exports import Export
from worker.export.parity import compare_outputs, judge, predict_all
from worker.tasks.imagery.exported import ImageSamples

GATE = Export(tolerance=1e-3, max_metric_drop=0.005)


def outputs(seed=0):
    return np.random.default_rng(seed).normal(size=(50, 4)).astype(np.float32)


def test_equal_outputs_do_not_differ():
    difference = compare_outputs(outputs(), outputs())
    assert (difference.max_abs, difference.relative) == (0, 0)


def test_the_difference_is_relative_to_the_largest_output():
    reference = outputs() * 100
    moved = reference.copy()
    moved[7, 2] += 0.5
    difference = compare_outputs(moved, reference)
    assert difference.max_abs == pytest.approx(0.5, rel=1e-3)
    assert difference.relative == pytest.approx(0.5 / np.abs(reference).max(), rel=1e-3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_outputs_differ_infinitely(bad):
    broken = outputs()
    broken[0, 0] = bad
    difference = compare_outputs(broken, outputs())
    assert difference.relative == np.inf
    assert not judge(GATE, difference=difference, metric_drop=0.0).verified


@pytest.mark.parametrize(
    ("offset", "drop", "words"),
    [
        (0.0, 0.0, []),
        (0.0, 0.005, []),
        (0.0, -0.2, []),
        (0.1, 0.0, ["tolerance"]),
        (0.0, 0.006, ["metric"]),
        (0.1, 0.006, ["tolerance", "metric"]),
        (0.0, np.nan, ["metric"]),
    ],
)
def test_the_gate_lists_each_miss(offset, drop, words):
    difference = compare_outputs(outputs() + np.float32(offset), outputs())
    verdict = judge(GATE, difference=difference, metric_drop=drop)
    assert verdict.verified == (not words)
    assert len(verdict.misses) == len(words)
    assert all(word in miss for word, miss in zip(words, verdict.misses, strict=True))


def test_pixels_become_planes_between_0_and_1_in_batches():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 4, 4, 3), dtype=np.uint8)
    shapes = []

    def predict(inputs):
        images = inputs["images"]
        shapes.append(images.shape)
        assert images.dtype == np.float32
        return images.reshape(len(images), -1)

    found = predict_all(predict, ImageSamples(pixels), np.arange(5), batch_size=2)
    assert shapes == [(2, 3, 4, 4), (2, 3, 4, 4), (1, 3, 4, 4)]
    expected = pixels.transpose(0, 3, 1, 2).reshape(5, -1) / np.float32(255)
    np.testing.assert_allclose(found, expected)
