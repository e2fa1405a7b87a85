import numpy as np
import pytest

from redkiln.views.comparison import IMAGE_BASELINES
from worker.export.baselines.baseline import Skipped
from worker.tasks.image_classification import baselines
from worker.tasks.image_classification.baselines import describe, list_baselines

SIDE = 48


def draw_stripes(angle, rng):
    """Return stripes (S, S, 3) of any phase, period and colour."""
    rows, columns = np.mgrid[0:SIDE, 0:SIDE]
    across = columns * np.cos(angle) + rows * np.sin(angle)
    wave = np.sin(across / rng.uniform(1, 2) + rng.uniform(0, 6))
    colour = rng.integers(60, 120, 3)
    return (colour * (1 + wave[..., None])).astype(np.uint8)


def fit(pixels, targets, num_classes, num_test=20):
    (offered,) = list_baselines(pixels, targets, num_classes=num_classes)
    rows = np.arange(len(pixels))
    return offered.name, offered.fit(rows[:-num_test], rows[-num_test:], 60.0)


def test_the_direction_of_edges_decides_a_class():
    rng = np.random.default_rng(0)
    targets = np.arange(60) % 2
    pixels = np.stack([draw_stripes((0.3, 1.8)[label], rng) for label in targets])
    name, fitted = fit(pixels, targets, 3)
    assert name == "linear model on edges and colours"
    assert fitted.outputs.shape == (20, 3)
    assert fitted.outputs.argmax(axis=1).tolist() == targets[-20:].tolist()


def test_colours_decide_several_labels_each():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, (80, 2))
    labels[~labels.any(axis=1), 0] = 1
    pixels = np.full((80, 16, 16, 3), 20, np.uint8) + rng.integers(0, 9, (80, 1, 1, 3), np.uint8)
    pixels[:, :8, :, 0] += (labels[:, 0, None, None] * 150).astype(np.uint8)
    pixels[:, 8:, :, 2] += (labels[:, 1, None, None] * 150).astype(np.uint8)
    name, fitted = fit(pixels, labels, 2)
    assert name == IMAGE_BASELINES[1]
    assert ((fitted.outputs > 0.5) == labels[-20:]).all()


@pytest.mark.parametrize("shape", [(4, 8, 8, 1), (4, 31, 31, 3), (4, 300, 300, 3)])
def test_images_of_any_size_have_finite_features_even_without_edges(shape):
    one_colour = np.full(shape, 128, np.uint8)
    noise = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    for images in (one_colour, noise):
        features = describe(images)
        assert len(features) == 4
        assert np.isfinite(features).all()
        assert (features[0] >= 0).all()
    assert not np.allclose(describe(one_colour), describe(noise))


def test_a_large_training_split_is_sampled_and_a_large_test_split_is_skipped(monkeypatch):
    rng = np.random.default_rng(0)
    targets = np.arange(100) % 2
    pixels = rng.integers(0, 256, (100, 8, 8, 1), np.uint8)
    monkeypatch.setattr(baselines, "MOST_PIXELS", 50 * 8 * 8)
    assert fit(pixels, targets, 2)[1].note == "trained on 50 of 80 samples"
    monkeypatch.setattr(baselines, "MOST_PIXELS", 19 * 8 * 8)
    with pytest.raises(Skipped, match="20 test images take too long"):
        fit(pixels, targets, 2)
