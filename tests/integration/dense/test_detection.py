"""Object detection from a folder of annotated images to boxes in a photo, as a user does it."""

import pytest

from tests.integration.dense.journeys import PHOTO_SIZE, assert_same_test_split, travel
from tests.integration.dense.scanned_digits import CLASSES, WRITERS, write_set

pytestmark = pytest.mark.integration

NUM_PAGES = 30


@pytest.fixture(scope="module")
def detector(shared_real_site, tmp_path_factory):
    """The journey of a set in COCO's format."""
    shared_real_site.restore()
    root = tmp_path_factory.mktemp("detector")
    num_digits = write_set(root / "coco-pages", WRITERS["coco"], num=NUM_PAGES)
    been = travel(shared_real_site, root / "coco-pages", root, model={"name": "dense-nano"})
    by_split = been.dataset.objects.boxes.values()
    assert sum(sum(by_class.values()) for by_class in by_split) == num_digits
    return been


def test_annotated_images_become_a_verified_detector(detector):
    assert detector.dataset.task == "object-detection"
    assert detector.evaluation.has_boxes
    boxes = detector.answer["boxes"]
    assert boxes
    assert {one["class"] for one in boxes} <= set(CLASSES)
    width, height = PHOTO_SIZE
    for one in boxes:
        left, top, right, bottom = one["box"]
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height


@pytest.mark.parametrize("annotation_format", [name for name in WRITERS if name != "coco"])
def test_the_same_boxes_in_another_format_are_the_same_data_set(
    real_site, detector, tmp_path, annotation_format
):
    folder = tmp_path / f"{annotation_format}-pages"
    write_set(folder, WRITERS[annotation_format], num=NUM_PAGES)
    dataset = real_site.client.push_dataset(folder, wait=True)
    assert dataset.status == "ready", dataset.errors
    assert dataset.objects.annotation_format == annotation_format
    assert dataset.objects.boxes == detector.dataset.objects.boxes
    assert_same_test_split(real_site, dataset, detector)
