"""Object detection from a folder of annotated images to boxes in a photo, as a user does it."""

import pytest

from tests.integration.dense.journeys import PHOTO_SIZE, travel
from tests.integration.dense.scanned_digits import CLASSES, WRITERS, write_set

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("annotation_format", WRITERS)
def test_annotated_images_become_a_verified_detector(real_site, tmp_path, annotation_format):
    folder = tmp_path / f"{annotation_format}-pages"
    num_digits = write_set(folder, WRITERS[annotation_format], num=30)
    been = travel(real_site, folder, tmp_path, model={"name": "dense-nano"})
    objects = been.dataset.objects
    assert (been.dataset.task, objects.annotation_format) == ("object-detection", annotation_format)
    by_split = objects.boxes.values()
    assert sum(sum(by_class.values()) for by_class in by_split) == num_digits
    assert been.evaluation.has_boxes
    boxes = been.answer["boxes"]
    assert boxes
    assert {one["class"] for one in boxes} <= set(CLASSES)
    width, height = PHOTO_SIZE
    for one in boxes:
        left, top, right, bottom = one["box"]
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
