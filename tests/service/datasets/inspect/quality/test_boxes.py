import pytest

from redkiln.annotations import AnnotatedImage, Box, DetectionIndex
from service.datasets.inspect.quality.boxes import check_boxes

GOOD = (0, 20)


def index_of(train, test=()):
    """An index with an image for each (label, side of its box in pixels)."""

    def images(found):
        return [
            AnnotatedImage(path=f"{n}.png", width=640, height=640, rank=n, label=label,
                           boxes=[Box(label=label, xyxy=(0, 0, side, side))])
            for n, (label, side) in enumerate(found)
        ]  # fmt: skip

    return DetectionIndex(
        classes=["cat", "dog"], annotation_format="coco", image_size=(640, 640), mixed_sizes=False,
        channels=3, seed=0, splits={"train": images(train), "test": images(test)},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("train", "test", "num_cut", "codes"),
    [
        ([GOOD] * 10 + [(1, 20)] * 10, [GOOD], 1, []),
        ([GOOD] * 10 + [(1, 20)] * 9, [GOOD], 0, ["few_boxes"]),
        ([GOOD] * 10, [(1, 20)], 0, ["few_boxes", "untrained_classes"]),
        ([GOOD] * 1001 + [(1, 20)] * 10, [GOOD], 0, ["imbalance"]),
        ([GOOD] * 10 + [(1, 7)] * 10, [GOOD], 0, ["tiny_boxes"]),
        ([GOOD] * 10 + [(1, 20)] * 10, [GOOD], 2, ["cut_boxes"]),
    ],
)
def test_boxes_that_are_hard_to_learn_are_named(train, test, num_cut, codes):
    found = check_boxes(index_of(train, test), num_cut=num_cut)
    assert [warning.code for warning in found] == codes
    assert all("dog" in warning.message for warning in found if warning.code != "cut_boxes")
