"""A model that finds several labels: its predictions, its check, and its score on own data."""

import io

import numpy as np
import pytest
from PIL import Image

from redkiln.errors import ModelError
from redkiln.predict.labelled.score import score_data
from redkiln.predict.model import Model
from redkiln.predict.verify import verify
from tests.redkiln.predict.models import save_channels

SHADES = {"yellow": (255, 255, 0), "dark": (150, 0, 0), "blue": (0, 0, 255)}


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for name, shade in SHADES.items():
        Image.new("RGB", (4, 4), shade).save(folder / f"{name}.png")
    return folder


def score(path, data):
    return score_data(Model(path, threads=1), str(data), stdin=io.BytesIO(), max_drop=0.01)


def test_labels_are_the_classes_that_reach_their_thresholds(tmp_path, images):
    found = Model(save_channels(tmp_path), threads=1).predict([images])
    labels = {one.name.rpartition("/")[2]: one.labels for one in found}
    assert labels == {"blue.png": ["blue"], "dark.png": [], "yellow.png": ["red", "green"]}


def test_each_class_keeps_its_own_probability(tmp_path, images):
    (one,) = Model(save_channels(tmp_path), threads=1).predict([images / "dark.png"])
    assert one.scores == [("red", pytest.approx(150 / 255)), ("green", 0.0), ("blue", 0.0)]


def test_images_are_scored_with_labels_csv(tmp_path, images):
    rows = ["file,labels", "yellow.png,green; red", "blue.png,red", "dark.png,blue"]
    rows.append("other.png,mauve")
    (images / "labels.csv").write_text("\n".join(rows))
    for name in ("other", "unnamed"):
        Image.new("RGB", (4, 4)).save(images / f"{name}.png")
    recorded = {"metrics": {"test/map": 0.9}, "intervals": {"test/map": [0.8, 0.95]}}
    found = score(save_channels(tmp_path, manifest=recorded), images)
    assert (found.metric_name, found.recorded, found.num_samples) == ("map", 0.9, 3)
    # Red is found before and after another image, green first, and blue among three equal ones.
    assert found.metric == pytest.approx((5 / 6 + 1 + 1 / 3) / 3)
    assert (found.accuracy, found.largest_share) == (pytest.approx(1 / 3), None)
    assert found.interval[0] < found.metric < found.interval[1]
    reasons = [one.reason for one in found.skipped]
    assert reasons == [
        "'mauve' is not a class of the model (red, green, blue)",
        "it has no row in labels.csv",
    ]


def test_images_without_labels_csv_cannot_be_scored(tmp_path, images):
    with pytest.raises(ModelError, match=r"labels\.csv does not exist"):
        score(save_channels(tmp_path), images)


@pytest.mark.parametrize("error", [0.0, 0.2])
def test_a_file_is_verified_by_its_probabilities_and_average_precision(tmp_path, error):
    path = save_channels(tmp_path)
    pixels = np.random.default_rng(0).integers(0, 256, (40, 4, 4, 3)).astype(np.uint8)
    outputs = pixels.mean(axis=(1, 2)).astype(np.float32) / 255
    arrays = {"images": pixels, "probabilities": outputs + np.float32(error)}
    labels = (outputs > 0.5).astype(np.uint8)
    np.savez(tmp_path / "parity.npz", **arrays, labels=labels, is_test=np.ones(40, bool))
    verdict = verify(path, threads=1)
    assert (verdict.metric_name, verdict.interval) == ("map", None)
    assert verdict.torch_metric == pytest.approx(1.0)
    assert verdict.verified == (error == 0)
