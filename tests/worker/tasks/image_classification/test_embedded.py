"""Files that prepare photos themselves: pixels are Pillow's, and answers are the model's."""

import json

import numpy as np
import onnx
import pytest
from PIL import Image

from redkiln.predict.model import Model
from redkiln.predict.pixels import PixelFormat, to_pixels
from redkiln.predict.session import open_session
from tests.redkiln.predict.models import COLOURS, SIDE, save_channels, save_colours
from worker.tasks.image_classification import embedded
from worker.tasks.image_classification.embedded import EmbeddedPhotos

RNG = np.random.default_rng(0)


def photos(channels=3, *, resize="stretch", size=24, output="logits", has_labels=False):
    small = RNG.integers(0, 256, (4, 6, 6, channels), dtype=np.uint8)
    pictures = small.repeat(size // 6, axis=1).repeat(size // 6, axis=2)
    noise = RNG.integers(0, 30, pictures.shape, dtype=np.uint8)
    return EmbeddedPhotos(
        pixel_format=PixelFormat(size=size, channels=channels, resize=resize),
        output=output,
        num_classes=3,
        has_labels=has_labels,
        pictures=np.maximum(pictures, noise),
    )


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
def test_photos_of_every_shape_become_pillows_pixels(resize, channels):
    assert photos(channels, resize=resize).find_misses() == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("antialias = 1, exclude_outside = 1", "antialias = 0"),
        ("exclude_outside = 1", "exclude_outside = 0"),
    ],
)
def test_a_resize_that_differs_from_pillows_is_a_miss(monkeypatch, right, wrong):
    nodes = embedded.resize_nodes
    monkeypatch.setattr(embedded, "resize_nodes", lambda f: nodes(f).replace(right, wrong))
    (miss,) = photos().find_misses()
    assert "of 255 levels from Pillow's, more than 1" in miss


@pytest.fixture
def colours(tmp_path):
    """A model of 4x4 pixels, and the same with embedded preparation."""
    plain = save_colours(tmp_path / "plain")
    path = save_colours(tmp_path / "embedded")
    photos(size=SIDE).apply(path)
    return open_session(plain), open_session(path)


def test_a_batch_of_photos_of_any_size_is_answered_like_prepared_pixels(colours):
    plain, own = colours
    taken = RNG.integers(0, 256, (3, 37, 22, 3), dtype=np.uint8)
    form = PixelFormat(size=SIDE, channels=3, resize="stretch")
    pixels = np.stack([to_pixels(Image.fromarray(photo), form) for photo in taken])
    planes = pixels.transpose(0, 3, 1, 2).astype(np.float32) / 255
    (expected,) = plain.run(["logits"], {"images": planes})
    logits, chances, scores, classes = own.run(None, {"photos": taken})
    np.testing.assert_allclose(logits, expected, atol=8 / 255)
    np.testing.assert_allclose(chances.sum(axis=1), 1, rtol=1e-6)
    assert (classes[:, 0] == logits.argmax(axis=1)).all()
    np.testing.assert_array_equal(np.take_along_axis(chances, classes, axis=1), scores)


def test_one_prepared_picture_has_the_models_outputs(colours):
    plain, own = colours
    pixels = RNG.integers(0, 256, (1, SIDE, SIDE, 3), dtype=np.uint8)
    planes = pixels.transpose(0, 3, 1, 2).astype(np.float32) / 255
    (expected,) = plain.run(["logits"], {"images": planes})
    np.testing.assert_allclose(own.run(["logits"], {"photos": pixels})[0], expected, rtol=1e-6)


def test_the_metadata_stay_and_redkiln_predict_answers_as_before(tmp_path):
    paths = [tmp_path / f"{name}.png" for name in "ab"]
    for path in paths:
        Image.fromarray(RNG.integers(0, 256, (9, 13, 3), dtype=np.uint8)).save(path)
    path = save_colours(tmp_path)
    before = list(Model(path).predict(paths))
    photos(size=SIDE).apply(path)
    (tmp_path / "manifest.json").write_text("{}")
    for now, then in zip(Model(path).predict(paths), before, strict=True):
        assert [name for name, _ in now.scores] == [name for name, _ in then.scores]
        assert now.scores[0][1] == pytest.approx(then.scores[0][1], rel=1e-5)
    known = {p.key: p.value for p in onnx.load(path).metadata_props}
    assert json.loads(known["classes"]) == COLOURS


def test_several_labels_keep_their_probabilities(tmp_path):
    path = save_channels(tmp_path)
    photos(size=SIDE, output="probabilities", has_labels=True).apply(path)
    session = open_session(path)
    names = [value.name for value in session.get_outputs()]
    assert names == ["probabilities", "top_scores", "top_classes"]
    taken = np.full((1, 9, 9, 3), (10, 250, 90), np.uint8)
    chances, scores, classes = session.run(None, {"photos": taken})
    assert classes.tolist() == [[1, 2, 0]]
    np.testing.assert_array_equal(scores[0], chances[0][classes[0]])
