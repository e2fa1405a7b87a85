"""Masks as PNG, COCO regions and LabelMe shapes, and what is wrong with them."""

import json

import numpy as np
import pytest

from service.datasets.inspect.listing import Entry
from service.datasets.inspect.masks.find import find_masks
from service.datasets.inspect.masks.painting import unpack_runs
from tests.service.datasets.inspect.boxes.made import coco, labelme, picture, pictures
from tests.service.datasets.inspect.masks.conftest import masks_of, png

SEGMENTATION = {"task": "semantic-segmentation"}


def half(label=1, size=(40, 20)):
    """A mask whose right half has a label."""
    mask = np.zeros(size[::-1], dtype=np.uint8)
    mask[:, size[0] // 2 :] = label
    return mask


def folders(masks, **more):
    """Images with masks, and the names of two classes."""
    images = pictures(*(f"images/{number}.png" for number in range(len(masks))))
    written = {f"masks/{number}.png": png(mask) for number, mask in enumerate(masks)}
    return {"classes.txt": b"road\ncar\n", **images, **written, **more}


def test_pairs_of_folders_are_recognised_with_their_statistics(check):
    first = half()
    first[0, :4] = 255
    index, report = check(folders([first, half(), half(0)]))
    assert (index.mask_format, index.classes) == ("png", ["road", "car"])
    np.testing.assert_array_equal(masks_of(index)["images/0.png"], first)
    found = {image.path: image for split in index.splits.values() for image in split}
    assert [found[f"images/{n}.png"].labels for n in range(3)] == [[0, 1], [0, 1], [0]]
    assert [found[f"images/{n}.png"].label for n in range(3)] == [1, 1, None]
    assert index.held_out_test
    totals = report.masks
    assert sum(split.get("car", 0) for split in totals.pixels.values()) == 800
    assert sum(split.get("car", 0) for split in totals.images.values()) == 2
    assert sum(totals.ignored.values()) == 4


def test_a_split_is_named_by_folders_on_either_side(check):
    files = {"classes.txt": b"road\ncar\n"}
    for number, split in enumerate(("train", "test")):
        files[f"images/{split}/1.png"] = picture(seed=number)
        files[f"masks/{split}/1.png"] = png(half(1 if split == "train" else 0))
    index, _ = check(files)
    assert [image.path for image in index.splits["test"]] == ["images/test/1.png"]
    assert masks_of(index)["images/train/1.png"].max() == 1
    assert masks_of(index)["images/test/1.png"].max() == 0


@pytest.mark.parametrize(
    ("change", "code", "path", "message"),
    [
        ({"classes.txt": None}, "no_class_names", "classes.txt", "the first line names the value"),
        ({"classes.txt": b"road\n\ncar"}, "bad_class_names", "classes.txt, line 2", "is empty"),
        ({"classes.txt": b"a\nb\na"}, "duplicate_class", "classes.txt, line 3", "a second time"),
        ({"masks/1.png": None}, "missing_mask", "images/1.png", "no mask of the same name"),
        ({"images/1.png": None}, "missing_image", "masks/1.png", "no image of the same name"),
        ({"masks/1.png": png(half(7))}, "bad_mask", "masks/1.png", "has the value 7, but"),
        ({"masks/1.png": png(half(255))}, "bad_mask", "masks/1.png", "write 1 for the second"),
        ({"masks/1.png": png(half(size=(30, 20)))}, "bad_mask", "masks/1.png", "30 x 20 pixels"),
        ({"masks/1.png": picture()}, "bad_mask", "masks/1.png", "pixels of the mode RGB"),
        ({"masks/1.png": b"text"}, "bad_mask", "masks/1.png", "is not a PNG"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(check, change, code, path, message):
    files = {**folders([half(), half(), half()]), **change}
    index, report = check({name: content for name, content in files.items() if content is not None})
    assert index is None
    (found,) = [problem for problem in report.errors if problem.code == code]
    assert found.path == path
    assert message in found.message


def test_a_class_may_be_called_masks():
    entries = [
        Entry(path=f"{name}/{number}.png", size_bytes=1)
        for name in ("masks", "no_masks")
        for number in range(3)
    ]
    assert find_masks(entries) is None
    assert find_masks(entries, is_asked=True) is not None


def test_masks_without_a_second_class_teach_nothing(check):
    _, report = check(folders([half(0), half(0)]))
    assert [problem.code for problem in report.errors] == ["no_regions"]
    assert "other than 'road'" in report.errors[0].message


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_mask_is_turned_as_its_image_is_displayed(check, is_stored):
    stored = half()
    stored[0] = 0
    shown = np.rot90(stored, -1)  # EXIF 6: turn it clockwise
    files = folders([stored if is_stored else shown, half()])
    files["images/0.png"] = picture(orientation=6)
    index, report = check(files)
    np.testing.assert_array_equal(masks_of(index)["images/0.png"], shown)
    assert any("the masks were rotated" in note for note in report.notes) == is_stored


def test_regions_of_coco_become_masks_if_they_are_wanted(check):
    # 5 columns of 20 pixels are inside, after 10 columns outside.
    runs = {"counts": [200, 100, 500], "size": [20, 40]}
    square = [[2, 3, 12, 3, 12, 8, 2, 8]]
    small = [[4, 4, 6, 4, 6, 6, 4, 6]]
    annotations = [
        (0, 1, [4, 4, 2, 2], {"segmentation": small}),
        (0, 0, [2, 3, 10, 5], {"segmentation": square}),
        (1, 1, [10, 0, 5, 20], {"segmentation": runs, "iscrowd": 1}),
    ]
    files = {**pictures("1.png", "2.png"), "a.coco.json": coco(["1.png", "2.png"], annotations)}
    index, _ = check(files, **SEGMENTATION)
    assert (index.mask_format, index.classes) == ("coco", ["background", "cat", "dog"])
    masks = masks_of(index)
    expected = np.zeros((20, 40), dtype=np.uint8)
    expected[3:8, 2:12] = 1
    expected[4:6, 4:6] = 2  # the smaller region is visible, whatever the order
    np.testing.assert_array_equal(masks["1.png"], expected)
    assert (masks["2.png"][:, 10:15] == 2).all()
    assert (masks["2.png"] == 2).sum() == 100


@pytest.mark.parametrize(
    ("segmentation", "message"),
    [
        (None, "needs `segmentation`"),
        ([[1, 2, 3, 4]], "at least three points"),
        ([], "has no polygon"),
        ([[90, 90, 95, 90, 95, 95]], "has no pixel in its image of 40 x 20"),
        ({"counts": [1, 2], "size": [20, 40]}, "do not add up"),
        ({"counts": [800], "size": [10, 80]}, "for 80 x 10 pixels"),
        ({"counts": "!!", "size": [20, 40]}, "do not add up"),
        ({"counts": [-1], "size": [20, 40]}, "needs `counts`"),
    ],
)
def test_a_region_that_cannot_be_painted_is_named(check, segmentation, message):
    good = (0, 0, [0, 0, 9, 9], {"segmentation": [[0, 0, 9, 0, 9, 9]]})
    bad = (1, 0, [0, 0, 9, 9], {"segmentation": segmentation})
    files = {**pictures("1.png", "2.png"), "a.coco.json": coco(["1.png", "2.png"], [good, bad])}
    _, report = check(files, **SEGMENTATION)
    (found,) = [problem for problem in report.errors if problem.code == "bad_region"]
    assert found.path == "a.coco.json#/annotations/1"
    assert message in found.message


def pack_runs(counts):
    """COCO's text for lengths of runs; as `rleToString` of its API writes it."""
    text = ""
    for number, count in enumerate(counts):
        value = count - counts[number - 2] if number > 2 else count
        while True:
            bits, value = value & 31, value >> 5
            is_last = value == (-1 if bits & 16 else 0)
            text += chr(48 + (bits if is_last else bits | 32))
            if is_last:
                break
    return text


@pytest.mark.parametrize("counts", [[800], [0, 800], [5, 700, 1, 3, 40, 51], [100_000, 3, 7, 9]])
def test_packed_runs_are_read_as_coco_writes_them(counts):
    assert unpack_runs(pack_runs(counts)) == counts


def test_shapes_of_labelme_become_masks(check):
    shapes = [
        ("cat", "polygon", [[2, 3], [12, 3], [12, 8], [2, 8]]),
        ("dog", "rectangle", [[20, 2], [30, 12]]),
        ("dog", "circle", [[35, 15], [35, 18]]),
    ]
    files = {**pictures("1.png", "2.png"), "1.json": labelme(shapes),
             "2.json": labelme(shapes[:1], image="2.png")}  # fmt: skip
    index, _ = check(files, **SEGMENTATION)
    mask = masks_of(index)["1.png"]
    assert index.classes == ["background", "cat", "dog"]
    assert (mask == 1).sum() == 50
    assert (mask[2:12, 20:30] == 2).all()
    assert (mask == 2).sum() == pytest.approx(100 + np.pi * 9, abs=4)


def test_formats_without_regions_are_refused(check):
    files = {**pictures("images/1.png"), "labels/1.txt": b"0 0.5 0.5 0.2 0.2\n",
             "data.yaml": json.dumps({"names": ["cat"]}).encode()}  # fmt: skip
    _, report = check(files, **SEGMENTATION)
    assert [problem.code for problem in report.errors] == ["no_regions"]
    _, report = check(pictures("a/1.png", "b/1.png"), **SEGMENTATION)
    assert [problem.code for problem in report.errors] == ["no_masks"]
