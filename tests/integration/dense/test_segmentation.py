"""Segmentation from a folder of images and masks to the mask of a photo, as a user does it."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from tests.integration.dense.journeys import PHOTO_SIZE, TRAINING, travel
from tests.integration.dense.scanned_digits import (
    BACKGROUND,
    CLASSES,
    MASK_WRITERS,
    write_set,
)
from tests.worker.trainer.instances.conftest import TINY

pytestmark = pytest.mark.integration


def read_png(text):
    with Image.open(io.BytesIO(base64.b64decode(text))) as mask:
        return np.asarray(mask)


@pytest.mark.parametrize("mask_format", MASK_WRITERS)
def test_images_with_masks_become_a_verified_segmenter(real_site, tmp_path, mask_format):
    folder = tmp_path / f"{mask_format}-pages"
    write_set(folder, MASK_WRITERS[mask_format], num=30)
    been = travel(
        real_site,
        folder,
        tmp_path,
        task="semantic-segmentation",
        model={"name": "unet-nano"},
        training={**TRAINING, "epochs": 6, "class_weights": "balanced"},
    )
    assert been.dataset.classes == [BACKGROUND, *CLASSES]
    assert been.evaluation.has_masks
    mask = read_png(been.answer["mask"]["png"])
    assert mask.shape == PHOTO_SIZE[::-1]


def test_objects_with_masks_become_a_verified_file(real_site, tmp_path):
    write_set(tmp_path / "objects", MASK_WRITERS["runs"], num=30)
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
