import json

import pytest

from tests.service.datasets.inspect.boxes.made import boxes, coco, faults, pictures, splits

NAMES = ["1.png", "2.png", "3.png"]
BOXES = [
    (0, 0, [2, 3, 10, 5], {}),
    (1, 1, [0, 0, 40, 20], {"iscrowd": 1}),
    (1, 0, [1, 1, 4, 4], {}),
]


def test_boxes_crowds_and_backgrounds_are_read(check):
    index, report = check({"annotations/instances.json": coco(NAMES, BOXES),
                           **pictures(*(f"images/{name}" for name in NAMES))})  # fmt: skip
    assert (index.annotation_format, index.classes) == ("coco", ["cat", "dog"])
    assert boxes(index) == {
        "images/1.png": [("cat", (2, 3, 12, 8))],
        "images/2.png": [("dog", (0, 0, 40, 20)), ("cat", (1, 1, 5, 5))],
        "images/3.png": [],
    }
    found = {im.path: im for images in index.splits.values() for im in images}
    assert [box.crowd for box in found["images/2.png"].boxes] == [True, False]
    assert [found[f"images/{name}"].label for name in NAMES] == [0, 0, None]
    assert (found["images/1.png"].width, found["images/1.png"].height) == (40, 20)
    assert report.counts == {"train": {"images": 2}, "test": {"images": 1}}
    assert report.objects.num_crowds == 1


@pytest.mark.parametrize(
    "paths",
    [
        {"train": ("annotations/instances_train2017.json", "train2017/"),
         "validation": ("annotations/instances_val2017.json", "val2017/"),
         "test": ("annotations/instances_test2017.json", "test2017/")},
        {"train": ("train/_annotations.coco.json", "train/"),
         "validation": ("valid/_annotations.coco.json", "valid/"),
         "test": ("test/_annotations.coco.json", "test/")},
        {"train": ("set/annotations/train.json", "set/images/train/"),
         "validation": ("set/annotations/val.json", "set/images/val/"),
         "test": ("set/annotations/test.json", "set/images/test/")},
    ],
    ids=["coco", "roboflow", "plain"],
)  # fmt: skip
def test_each_file_of_annotations_is_a_split(check, paths):
    files = {}
    for number, (annotations, folder) in enumerate(paths.values()):
        # The same name in each split: the folder decides.
        files |= {f"{folder}1.png": pictures(*"abc")["abc"[number]]}
        files[annotations] = coco(["1.png"], [(0, 0, [number, 0, 5, 5], {})])
    index, _ = check(files)
    folders = [folder for _, folder in paths.values()]
    assert splits(index) == {
        "train": [f"{folders[0]}1.png", f"{folders[1]}1.png"],
        "test": [f"{folders[2]}1.png"],
    }
    assert (index.num_validation, index.held_out_test) == (1, False)
    assert boxes(index)[f"{folders[2]}1.png"] == [("cat", (2, 0, 7, 5))]


def test_a_file_with_any_name_is_recognised_by_its_content(check):
    files = {"labels.json": coco(NAMES, BOXES), **pictures(*(f"data/{name}" for name in NAMES))}
    assert check(files)[0].annotation_format == "coco"


def test_files_of_captions_and_keypoints_next_to_the_instances_are_left_out(check):
    files = {
        "annotations/captions_train2017.json": b"{}",
        "annotations/person_keypoints_train2017.json": coco(NAMES, BOXES),
        "annotations/instances_train2017.json": coco(NAMES, BOXES),
    }
    index, _ = check(files | pictures(*(f"train2017/{name}" for name in NAMES)))
    assert sum(len(found) for found in boxes(index).values()) == 3


def test_a_category_that_only_groups_others_is_not_a_class(check):
    content = json.loads(coco(NAMES, BOXES))
    for category in content["categories"]:
        category["supercategory"] = "pets"
    content["categories"].insert(0, {"id": 0, "name": "pets", "supercategory": "none"})
    index, report = check(
        {"_annotations.coco.json": json.dumps(content).encode(), **pictures(*NAMES)}
    )
    assert index.classes == ["cat", "dog"]
    assert "categories that only group others are not classes: pets" in report.notes


def test_categories_of_several_files_are_joined_by_name(check):
    files = {
        "train/_annotations.coco.json": coco(["1.png"], [(0, 1, [0, 0, 5, 5], {})]),
        "test/_annotations.coco.json": coco(
            ["2.png"], [(0, 0, [0, 0, 5, 5], {})], categories=("dog", "owl")
        ),
    }
    index, _ = check(files | pictures("train/1.png", "test/2.png"))
    assert index.classes == ["cat", "dog", "owl"]
    assert {found[0][0] for found in boxes(index).values()} == {"dog"}


def broken(change):
    content = json.loads(coco(NAMES, BOXES))
    change(content)
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("change", "code", "pointer"),
    [
        (lambda c: c["annotations"][1].update(bbox=[1, 2, 3]), "bad_box", "/annotations/1"),
        (lambda c: c["annotations"][1].update(bbox=[1, "2", 3, 4]), "bad_box", "/annotations/1"),
        (lambda c: c["annotations"][2].pop("bbox"), "bad_box", "/annotations/2"),
        (lambda c: c["annotations"][0].update(bbox=[1, 2, float("nan"), 4]), "not_finite",
         "/annotations/0"),
        (lambda c: c["annotations"][0].update(bbox=[1, 2, 10**400, 4]), "not_finite",
         "/annotations/0"),
        (lambda c: c["annotations"][0].update(bbox=[1, 2, 0, 4]), "empty_box", "/annotations/0"),
        (lambda c: c["annotations"][0].update(bbox=[9, 2, -3, 4]), "empty_box", "/annotations/0"),
        (lambda c: c["annotations"][0].update(bbox=[41, 2, 9, 4]), "outside", "/annotations/0"),
        (lambda c: c["annotations"][0].update(category_id=99), "unknown_class", "/annotations/0"),
        (lambda c: c["annotations"][0].update(category_id=[]), "unknown_class", "/annotations/0"),
        (lambda c: c["annotations"][0].update(image_id=99), "unknown_image", "/annotations/0"),
        (lambda c: c["annotations"][1].update(id=0), "duplicate_id", "/annotations/1"),
        (lambda c: c["images"][2].update(file_name="4.png"), "missing_image", "/images/2"),
        (lambda c: c["images"][2].update(width=80, height=40), "wrong_image_size", "/images/2"),
    ],
)  # fmt: skip
def test_a_fault_is_reported_with_its_json_pointer_and_may_be_skipped(check, change, code, pointer):
    files = {"instances_all.json": broken(change), **pictures(*NAMES)}
    place = (code, f"instances_all.json#{pointer}")
    index, report = check(files)
    assert index is None
    assert place in faults(report)
    index, report = check(files, skip_bad=1)
    assert index is not None, report.errors
    assert place in faults(report)
    assert report.num_skipped == 1


@pytest.mark.parametrize(
    ("change", "code", "pointer"),
    [
        (lambda c: c["images"][1].update(id=0), "duplicate_id", "/images/1"),
        (lambda c: c["images"][1].update(file_name="1.png"), "duplicate_image", "/images/1"),
        (lambda c: c["images"][1].pop("file_name"), "bad_image_entry", "/images/1"),
        (lambda c: c["categories"][1].update(id=5), "duplicate_id", "/categories/1"),
        (lambda c: c["categories"][1].update(name="cat"), "duplicate_class", "/categories/1"),
        (lambda c: c["categories"][1].update(name=""), "bad_category", "/categories/1"),
        (lambda c: c.update(annotations={}), "bad_annotations", "/annotations"),
        (lambda c: c["images"].append(7), "bad_annotations", "/images/3"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(check, change, code, pointer):
    files = {"instances_all.json": broken(change), **pictures(*NAMES)}
    _, report = check(files, skip_bad=100)
    assert faults(report) == {(code, f"instances_all.json#{pointer}")}


def test_a_file_that_is_cut_off_is_refused_with_the_line(check):
    _, report = check({"instances_all.json": coco(NAMES, BOXES)[:-20], **pictures(*NAMES)})
    (error,) = report.errors
    assert (error.code, error.path) == ("bad_annotations", "instances_all.json")
    assert "line 1 column" in error.message


def test_images_that_no_file_lists_are_named_and_not_used(check):
    files = {"instances_all.json": coco(NAMES, BOXES), **pictures(*NAMES, "other.png")}
    index, report = check(files)
    assert "other.png" not in boxes(index)
    assert any("1 images have no annotations" in note and "other.png" in note
               for note in report.notes)  # fmt: skip
