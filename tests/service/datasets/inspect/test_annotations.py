import pytest

from service.datasets.inspect.annotations import refuse_boxes
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.report import Refused


def entries(*paths):
    return [Entry(path=path, parts=tuple(path.split("/"))) for path in paths]


@pytest.mark.parametrize(
    ("paths", "kind", "place"),
    [
        (
            ["data.yaml", "images/train/1.jpg", "labels/train/1.txt"],
            "YOLO",
            "labels/train/1.txt",
        ),
        (["train/images/1.jpg", "train/labels/1.txt"], "YOLO", "train/labels/1.txt"),
        (
            ["train2017/1.jpg", "annotations/instances_train2017.json"],
            "COCO",
            "annotations/instances_train2017.json",
        ),
        (["train/1.jpg", "train/_annotations.coco.json"], "COCO", "train/_annotations.coco.json"),
        (["JPEGImages/1.jpg", "Annotations/1.xml"], "Pascal VOC", "Annotations/1.xml"),
    ],
)
def test_a_set_for_object_detection_is_refused_with_what_to_do(paths, kind, place):
    with pytest.raises(Refused) as refused:
        refuse_boxes(entries(*paths))
    (found,) = refused.value.problems
    assert (found.code, found.path) == ("object_detection", place)
    assert f"the boxes of a {kind} set" in found.message
    assert "into a folder of its class" in found.message


@pytest.mark.parametrize(
    "paths",
    [
        ["train/cat/1.jpg", "train/dog/2.jpg", "README.txt", "notes.json"],
        ["cat/1.jpg", "cat/1.txt"],
        ["labels/1.txt", "labels/2.txt"],
        [],
    ],
)
def test_other_sets_are_left_to_the_other_checks(paths):
    refuse_boxes(entries(*paths))
