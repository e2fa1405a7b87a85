"""Masks of single objects from COCO regions and LabelMe shapes, with the boxes around them."""

import io

import numpy as np
import pytest
from PIL import Image

from redkiln.annotations import AnnotatedImage, Box, ObjectMask
from redkiln.coco import CocoFile
from redkiln.predict.instances.regions import read_region
from redkiln.predict.masks.coding import pack_mask, unpack_mask
from service.datasets.inspect.answers import write_answers
from service.datasets.inspect.tiles import TileBox, draw_boxes
from tests.service.datasets.inspect.boxes.made import coco, labelme, picture, pictures

INSTANCES = {"task": "instance-segmentation"}
NAMES = ["1.png", "2.png", "3.png"]
EVERYWHERE = [[0, 0, 40, 0, 40, 20, 0, 20]]


def outline(points):
    return {"segmentation": points}


def objects_of(index):
    """The objects of each image by its path."""
    return {image.path: image.boxes for split in index.splits.values() for image in split}


def paint(box, size=(40, 20)):
    """The mask (H, W) of an object in its image."""
    mask = np.zeros(size[::-1], dtype=np.uint8)
    left, top, right, bottom = (int(end) for end in box.xyxy)
    mask[top:bottom, left:right] = unpack_mask(box.mask.packed, box.mask.size)
    return mask


def test_each_object_of_coco_has_a_mask_and_the_box_around_it(check):
    inside = np.zeros((20, 40), dtype=np.uint8)
    inside[5:15, 10:30] = 1
    inside[5:7, 10:12] = 0
    runs = np.diff(np.flatnonzero(np.diff(inside.T.reshape(-1), prepend=0, append=2)), prepend=0)
    rle = {"counts": [*runs.tolist()], "size": [20, 40]}
    far = [0, 0, 1, 1]  # the box of the file is not read
    annotations = [
        (0, 0, far, outline([[4, 4, 20, 4, 4, 16]])),
        (0, 1, far, outline(rle)),
        (0, 1, far, {**outline(EVERYWHERE), "iscrowd": 1}),
        (1, 0, far, outline(EVERYWHERE)),
        (2, 1, far, outline(EVERYWHERE)),
    ]
    content = {"_annotations.coco.json": coco(NAMES, annotations), **pictures(*NAMES)}
    index, report = check(content, **INSTANCES)
    triangle, other, crowd = objects_of(index)["1.png"]
    assert [(box.label, box.crowd) for box in (triangle, other, crowd)] == [
        (0, False),
        (1, False),
        (1, True),
    ]
    assert other.xyxy == (10, 5, 30, 15)
    np.testing.assert_array_equal(paint(other), inside)
    left, top, right, bottom = triangle.xyxy
    assert (left, top) == (4, 4)
    assert 0.45 < paint(triangle).sum() / ((right - left) * (bottom - top)) < 0.6
    assert report.objects.num_crowds == 1
    assert index.classes == ["cat", "dog"]


def test_shapes_of_labelme_overlap_without_losing_pixels(check):
    square = [[0, 0], [20, 0], [20, 20], [0, 20]]
    shapes = [("cat", "polygon", square), ("cat", "rectangle", [[10, 5], [30, 15]])]
    files = {f"{n}.json": labelme(shapes, image=f"{n}.png") for n in range(3)}
    index, _ = check({**files, **pictures(*(f"{n}.png" for n in range(3)))}, **INSTANCES)
    first, second = objects_of(index)["0.png"]
    assert (first.xyxy, int(paint(first).sum())) == ((0, 0, 20, 20), 400)
    assert (second.xyxy, int(paint(second).sum())) == ((10, 5, 30, 15), 200)


def test_masks_of_a_stored_picture_are_turned_with_it(check):
    turned = {name: picture((40, 20), seed=n, orientation=6) for n, name in enumerate(NAMES)}
    corner = outline([[0, 0, 10, 0, 10, 5, 0, 5]])
    annotations = [(image, 0, [0, 0, 1, 1], corner) for image in range(3)]
    index, report = check(
        {"_annotations.coco.json": coco(NAMES, annotations), **turned}, **INSTANCES
    )
    for boxes in objects_of(index).values():
        assert boxes[0].xyxy == (15, 0, 20, 10)  # the left top becomes the right top
    assert "EXIF rotates 3 images" in " ".join(report.notes)


@pytest.mark.parametrize(
    ("segmentation", "message"),
    [
        ([[50, 50, 60, 50, 60, 60]], "has no pixel in its image"),
        ({"counts": [10], "size": [5, 2]}, "has runs for 2 x 5 pixels"),
    ],
)
def test_an_object_without_pixels_is_named(check, segmentation, message):
    annotations = [(n, 0, [0, 0, 1, 1], outline(EVERYWHERE)) for n in range(3)]
    annotations.append((0, 0, [0, 0, 1, 1], outline(segmentation)))
    content = {"_annotations.coco.json": coco(NAMES, annotations), **pictures(*NAMES)}
    index, report = check(content, **INSTANCES)
    assert index is None
    (found,) = [error for error in report.errors if error.code == "bad_region"]
    assert message in found.message
    assert found.path == "_annotations.coco.json#/annotations/3"


def test_sets_without_masks_of_objects_are_refused(check):
    yolo = {"images/1.png": picture(), "labels/1.txt": b"0 0.5 0.5 0.5 0.5", "classes.txt": b"cat"}
    assert [error.code for error in check(yolo, **INSTANCES)[1].errors] == ["no_regions"]
    folders = {f"cat/{n}.png": picture(seed=n) for n in range(3)}
    assert [error.code for error in check(folders, **INSTANCES)[1].errors] == ["no_masks"]


def test_tiles_show_the_pixels_of_objects(check):
    triangle = outline([[4, 4, 36, 4, 4, 18]])
    annotations = [(n, 0, [0, 0, 1, 1], triangle) for n in range(3)]
    index, _ = check(
        {"_annotations.coco.json": coco(NAMES, annotations), **pictures(*NAMES)}, **INSTANCES
    )
    box = objects_of(index)["1.png"][0]
    left, top, right, bottom = box.xyxy
    ends = (left / 40, top / 20, right / 40, bottom / 20)
    tile = Image.open(io.BytesIO(picture((40, 20)))).convert("RGB")
    before = np.asarray(tile).copy()
    draw_boxes(tile, [TileBox(0, ends, (box.mask.packed, box.mask.size))])
    is_changed = (np.asarray(tile) != before).any(axis=2)
    assert is_changed[8, 10]
    assert not is_changed[12, 30]


def test_the_answers_of_the_test_split_have_the_same_pixels(check):
    odd = [[4, 4, 20, 4, 4, 16]]
    holes = {"counts": [0, 5, 10, 20, 100, 1, 644, 20], "size": [20, 40]}
    annotations = [
        (image, image % 2, [0, 0, 1, 1], outline(region))
        for image in range(3)
        for region in (odd, holes)
    ]
    pages = pictures(*NAMES)
    index, _ = check({"_annotations.coco.json": coco(NAMES, annotations), **pages}, **INSTANCES)
    index.splits["test"] += index.splits.pop("train")
    tested = [one.path for one in index.splits["test"]]
    ((name, content),) = write_answers(index, tested)
    answers = CocoFile.model_validate_json(content)
    known = [box for path in tested for box in objects_of(index)[path]]
    assert len(answers.annotations) == len(known) > 0
    for one, box in zip(answers.annotations, known, strict=True):
        np.testing.assert_array_equal(read_region(one.segmentation, (40, 20)), paint(box))
        assert one.area == paint(box).sum()
    again, _ = check({name: content, **pages}, **INSTANCES)
    for path in tested:
        for one, box in zip(objects_of(again)[path], objects_of(index)[path], strict=True):
            assert (one.xyxy, one.mask.packed) == (box.xyxy, box.mask.packed)


def test_the_answers_enlarge_the_masks_of_large_objects(check):
    annotations = [(n, 0, [0, 0, 1, 1], outline(EVERYWHERE)) for n in range(3)]
    pages = pictures(*NAMES)
    index, _ = check({"_annotations.coco.json": coco(NAMES, annotations), **pages}, **INSTANCES)
    small = np.array([[1, 0], [0, 1]], np.uint8)
    mask = ObjectMask(packed=pack_mask(small), size=(2, 2))
    box = Box(label=0, xyxy=(10, 4, 30, 16), mask=mask)
    image = AnnotatedImage(path="big.png", width=40, height=20, label=0, rank=0, boxes=[box])
    index.splits["test"] = [image]
    ((_, content),) = write_answers(index, ["big.png"])
    (one,) = CocoFile.model_validate_json(content).annotations
    wanted = np.zeros((20, 40), np.uint8)
    wanted[4:16, 10:30] = small.repeat(6, axis=0).repeat(10, axis=1)
    np.testing.assert_array_equal(read_region(one.segmentation, (40, 20)), wanted)
