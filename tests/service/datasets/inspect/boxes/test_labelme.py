import json

import pytest

from tests.service.datasets.inspect.boxes.made import boxes, faults, labelme, pictures, splits

CAT = ("cat", "rectangle", [[12, 8], [2, 3]])


def test_shapes_with_an_area_become_boxes(check):
    shapes = [
        CAT,
        ("dog", "polygon", [[1, 1], [9, 2], [4, 7]]),
        ("ball", "circle", [[20, 10], [20, 14]]),
        ("way", "line", [[1, 1], [5, 5]]),
        ("eye", "point", [[1, 1]]),
    ]
    files = pictures("1.png", "2.png") | {"1.json": labelme(shapes), "2.json": labelme([CAT])}
    index, report = check(files)
    assert (index.annotation_format, index.classes) == ("labelme", ["ball", "cat", "dog"])
    assert boxes(index)["1.png"] == [
        ("cat", (2, 3, 12, 8)), ("dog", (1, 1, 9, 7)), ("ball", (16, 6, 24, 14))
    ]  # fmt: skip
    assert any(note.startswith("2 points and lines") for note in report.notes)


def test_folders_are_splits_and_an_image_without_a_file_is_not_used(check):
    names = ("train/1", "train/2", "test/3")
    files = pictures(*(f"{name}.png" for name in names), "train/9.png")
    index, report = check(files | {f"{name}.json": labelme([CAT]) for name in names})
    assert splits(index) == {"train": ["train/1.png", "train/2.png"], "test": ["test/3.png"]}
    assert any("have no annotations" in note and "train/9.png" in note for note in report.notes)


def test_a_file_in_another_folder_names_its_image(check):
    names = ("images/a.png", "images/a.bmp", "images/b.png")
    index, _ = check(
        pictures(*names)
        | {
            "json/a.json": labelme([CAT], image="..\\images\\a.bmp"),
            "json/b.json": labelme([CAT]),
        }
    )
    assert set(boxes(index)) == {"images/a.bmp", "images/b.png"}


@pytest.mark.parametrize(
    ("shape", "code"),
    [
        (("cat", "rectangle", [[1, 1]]), "bad_box"),
        (("cat", "rectangle", [[1, 1], [2, "3"]]), "bad_box"),
        (("cat", "rectangle", [[1, 1], [2, float("inf")]]), "not_finite"),
        (("cat", "rectangle", [[1, 1], [1, 5]]), "empty_box"),
        (("cat", "rectangle", [[50, 1], [60, 5]]), "outside"),
        ((None, "rectangle", [[1, 1], [3, 5]]), "unknown_class"),
        ((" ", "rectangle", [[1, 1], [3, 5]]), "unknown_class"),
    ],
)
def test_a_fault_is_reported_with_its_json_pointer_and_may_be_skipped(check, shape, code):
    files = pictures("1.png", "2.png") | {"1.json": labelme([CAT, shape]), "2.json": labelme([CAT])}
    place = (code, "1.json#/shapes/1")
    assert place in faults(check(files)[1])
    index, report = check(files, skip_bad=1)
    assert faults(report) == {place}
    assert len(boxes(index)["1.png"]) == 1


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"{", "1.json"),
        (b'{"shapes": 1}', "1.json#/shapes"),
        (b'{"imagePath": "1.png"}', "1.json#/shapes"),
        (labelme([CAT], size=(20, 41)), "1.json"),
    ],
)
def test_annotations_that_cannot_be_used_cost_their_image(check, content, place):
    names = ("0", "1", "2")
    files = pictures(*(f"{name}.png" for name in names))
    files |= {f"{name}.json": labelme([CAT]) for name in names} | {"1.json": content}
    assert place in {path for _, path in faults(check(files)[1])}
    index, _ = check(files, skip_bad=1)
    assert set(boxes(index)) == {"0.png", "2.png"}


def test_json_next_to_images_that_is_not_of_labelme_leaves_class_folders_as_they_are(check, make):
    files = dict(make.image_set())
    files["train/cat/0.json"] = json.dumps({"camera": "x"}).encode()
    _, report = check(files)
    assert {code for code, _ in faults(report)} == {"too_many_bad_files", "not_an_image"}
