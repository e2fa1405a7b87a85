"""Detectors and segmenters are scored in their square, on boxes and masks of people."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from redkiln.errors import ModelError
from redkiln.predict.labelled.score import score_data
from redkiln.predict.model import Model
from tests.redkiln.predict.models import save_detector, save_segmenter

MOON = [0, 0, 40, 20]
"""All of a wide image: what the detector finds in its square, with black around the image."""


def score(path, data):
    return score_data(Model(path, threads=1), str(data), stdin=io.BytesIO(), max_drop=0.01)


def write_boxes(folder, brightness, objects, *, categories=("moon", "sun")):
    """Write wide images of a brightness, and a COCO file; objects are (image, class, bbox)."""
    folder.mkdir()
    for number, grey in enumerate(brightness):
        Image.new("RGB", (40, 20), (grey, grey, grey)).save(folder / f"{number}.png")
    content = {
        "images": [{"id": n, "file_name": f"{n}.png"} for n in range(len(brightness))],
        "categories": [{"id": 7 + n, "name": name} for n, name in enumerate(categories)],
        "annotations": [
            {"image_id": image, "category_id": 7 + categories.index(name), "bbox": box, **more}
            for image, name, box, more in objects
        ],
    }
    (folder / "_annotations.coco.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(("other", "wanted"), [(100, 1.0), (240, 0.5)])
def test_a_detector_has_the_average_precision_of_its_boxes(tmp_path, other, wanted):
    # The second image has no moon: the box that is found in it harms if its score is higher.
    data = write_boxes(tmp_path / "data", [200, other], [(0, "moon", MOON, {})])
    found = score(save_detector(tmp_path), data)
    assert (found.metric_name, found.num_samples, found.skipped) == ("map", 2, [])
    assert found.metric == pytest.approx(wanted)


def test_a_box_in_a_crowd_is_no_mistake(tmp_path):
    objects = [(0, "moon", MOON, {}), (1, "moon", MOON, {"iscrowd": 1})]
    found = score(save_detector(tmp_path), write_boxes(tmp_path / "data", [200, 240], objects))
    assert found.metric == pytest.approx(1.0)


def test_a_detector_that_chance_does_not_explain_is_a_miss(tmp_path):
    objects = [(number, "sun", MOON, {}) for number in range(4)]
    model = save_detector(tmp_path, manifest={"metrics": {"test/map": 0.9}})
    found = score(model, write_boxes(tmp_path / "data", [200] * 4, objects))
    assert (found.metric, found.recorded) == (0.0, 0.9)
    assert "the mean average precision is 0, but 0.9 on the job's test split" in found.miss


def test_images_of_a_detector_that_cannot_be_used_are_skipped_by_name(tmp_path):
    objects = [(0, "moon", MOON, {}), (1, "comet", MOON, {})]
    data = write_boxes(tmp_path / "data", [200] * 3, objects, categories=("moon", "comet"))
    (data / "2.png").unlink()
    found = score(save_detector(tmp_path), data)
    assert found.num_samples == 1
    assert {one.name[-5:]: one.reason for one in found.skipped} == {
        "1.png": "'comet' is not a class of the model (sun, moon)",
        "2.png": "No such file or directory",
    }


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (None, "does not exist. To score a detector, name a folder of images with a COCO file"),
        ("{}", "cannot be read as COCO"),
    ],
)
def test_a_detector_needs_a_coco_file(tmp_path, written, message):
    data = write_boxes(tmp_path / "data", [200], [])
    model = save_detector(tmp_path)
    with pytest.raises(ModelError, match="has an object"):
        score(model, data)
    (data / "_annotations.coco.json").unlink()
    if written is not None:
        (data / "_annotations.coco.json").write_text(written)
    with pytest.raises(ModelError, match=message):
        score(model, data)
    with pytest.raises(ModelError, match="is not a folder"):
        score(model, data / "0.png")


def write_masks(folder, masks, *, names="ground\nsky\n"):
    """Write images whose left half is white, and a mask for each."""
    (folder / "masks").mkdir(parents=True)
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[:, :4] = 255
    for number, mask in enumerate(masks):
        Image.fromarray(pixels).save(folder / f"{number}.png")
        Image.fromarray(np.asarray(mask, np.uint8)).save(folder / "masks" / f"{number}.png")
    (folder / "classes.txt").write_text(names)
    return folder


def left(value, other=0):
    mask = np.full((8, 8), other, np.uint8)
    mask[:, :4] = value
    return mask


@pytest.mark.parametrize(
    ("masks", "names", "wanted"),
    [
        ([left(1)], "ground\nsky\n", 1.0),
        ([left(0, 1)], "sky\nground\n", 1.0),  # the names decide, not the numbers
        ([left(1), left(0)], "ground\nsky\n", (2 / 3 + 1 / 2) / 2),
        ([left(1, 255)], "ground\nsky\n", 1.0),  # ignored pixels do not count
        ([left(1)[::2, ::2]], "ground\nsky\n", 1.0),  # a smaller mask covers the whole image
    ],
)
def test_a_segmenter_has_the_mean_iou_of_its_masks(tmp_path, masks, names, wanted):
    found = score(save_segmenter(tmp_path), write_masks(tmp_path / "data", masks, names=names))
    assert (found.metric_name, found.num_samples, found.skipped) == ("miou", len(masks), [])
    assert found.metric == pytest.approx(wanted)


def test_the_metric_of_masks_has_an_interval_over_the_images(tmp_path):
    model = save_segmenter(tmp_path, manifest={"metrics": {"test/miou": 0.6}})
    found = score(model, write_masks(tmp_path / "data", [left(1), left(0)] * 3))
    low, high = found.interval
    assert low < found.metric < high
    assert found.miss is None


def test_images_of_a_segmenter_that_cannot_be_used_are_skipped_by_name(tmp_path):
    data = write_masks(tmp_path / "data", [left(1), left(2), left(1), left(1)])
    (data / "masks" / "2.png").unlink()
    Image.new("RGB", (8, 8)).save(data / "masks" / "3.png")
    found = score(save_segmenter(tmp_path), data)
    assert found.num_samples == 1
    assert [one.reason for one in found.skipped] == [
        "'2' is not a class of the model (ground, sky)",
        "it has no mask masks/2.png",
        "its mask 3.png does not have one byte a pixel",
    ]


def test_a_segmenter_needs_the_names_of_the_classes_and_masks(tmp_path):
    model, data = save_segmenter(tmp_path), write_masks(tmp_path / "data", [left(255, 255)])
    with pytest.raises(ModelError, match="All pixels of the masks are 255"):
        score(model, data)
    (data / "masks").rename(data / "others")
    with pytest.raises(ModelError, match="has no images with masks in a folder `masks`"):
        score(model, data)
    (data / "classes.txt").unlink()
    with pytest.raises(ModelError, match="To score a segmenter, name a folder"):
        score(model, data)
