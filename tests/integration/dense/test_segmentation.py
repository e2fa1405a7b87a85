"""Segmentation from a folder of images and masks to the mask of a photo, as a user does it."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from tests.integration.dense.journeys import (
    PHOTO_SIZE,
    TRAINING,
    assert_same_test_split,
    travel,
)
from tests.integration.dense.scanned_digits import (
    BACKGROUND,
    CLASSES,
    MASK_WRITERS,
    write_set,
)
from tests.worker.trainer.instances.conftest import TINY

pytestmark = pytest.mark.integration

NUM_PAGES = 30


def read_png(text):
    with Image.open(io.BytesIO(base64.b64decode(text))) as mask:
        return np.asarray(mask)


@pytest.fixture(scope="module")
def segmenter(shared_real_site, tmp_path_factory):
    """The journey of a set whose masks are PNG files."""
    shared_real_site.restore()
    root = tmp_path_factory.mktemp("segmenter")
    write_set(root / "masks-pages", MASK_WRITERS["masks"], num=NUM_PAGES)
    return travel(
        shared_real_site,
        root / "masks-pages",
        root,
        task="semantic-segmentation",
        model={"name": "unet-nano"},
        training={**TRAINING, "epochs": 6, "class_weights": "balanced"},
    )


def test_images_with_masks_become_a_verified_segmenter(segmenter):
    assert segmenter.dataset.classes == [BACKGROUND, *CLASSES]
    assert segmenter.evaluation.has_masks
    mask = read_png(segmenter.answer["mask"]["png"])
    assert mask.shape == PHOTO_SIZE[::-1]


@pytest.mark.parametrize("mask_format", [name for name in MASK_WRITERS if name != "masks"])
def test_the_same_masks_in_another_format_are_the_same_data_set(
    real_site, segmenter, tmp_path, mask_format
):
    folder = tmp_path / f"{mask_format}-pages"
    write_set(folder, MASK_WRITERS[mask_format], num=NUM_PAGES)
    dataset = real_site.client.push_dataset(folder, task="semantic-segmentation", wait=True)
    assert dataset.status == "ready", dataset.errors
    assert dataset.classes == segmenter.dataset.classes
    assert dataset.counts == segmenter.dataset.counts
    if mask_format == "runs":
        assert_same_test_split(real_site, dataset, segmenter)
    # The outline of a digit passes through pixels, which a mask has as a whole or not at all.
    for split, pixels in segmenter.dataset.masks.pixels.items():
        assert dataset.masks.pixels[split] == pytest.approx(pixels, rel=0.01), split


def test_objects_with_masks_become_a_verified_file(real_site, tmp_path):
    write_set(tmp_path / "objects", MASK_WRITERS["runs"], num=NUM_PAGES)
    been = travel(
        real_site,
        tmp_path / "objects",
        tmp_path,
        task="instance-segmentation",
        model={"name": "rf_detr", "config": TINY},
    )
    assert been.dataset.classes == [*CLASSES]
    boxes = been.answer["boxes"]
    assert boxes
    assert all(read_png(one["mask"]["png"]).shape == PHOTO_SIZE[::-1] for one in boxes)
