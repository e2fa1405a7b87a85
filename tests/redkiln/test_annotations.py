from redkiln.annotations import AnnotatedImage, Box, DetectionIndex, parse_image_index
from redkiln.datasets import DatasetIndex, Sample

SHAPE = {"image_size": (8, 6), "mixed_sizes": False, "channels": 3, "seed": 0}


def test_an_index_for_detection_survives_json():
    box = Box(label=0, xyxy=(1.5, 0, 8, 6), crowd=True)
    image = AnnotatedImage(path="a.png", width=8, height=6, label=0, rank=0, boxes=[box])
    splits = {"train": [image], "test": [AnnotatedImage(path="b.png", width=8, height=6, rank=0)]}
    index = DetectionIndex(classes=["cat"], splits=splits, annotation_format="coco", **SHAPE)
    assert parse_image_index(index.model_dump_json(exclude_none=True).encode()) == index


def test_the_task_determines_the_type_of_the_index():
    sample = Sample(path="a.png", label=0, rank=0)
    index = DatasetIndex(classes=["cat"], splits={"train": [sample], "test": []}, **SHAPE)
    assert parse_image_index(index.model_dump_json().encode()) == index


def test_images_without_objects_are_a_stratum_of_their_own():
    image = AnnotatedImage(path="a.png", width=8, height=6, rank=0)
    assert image.stratum == -1
    assert image.model_copy(update={"label": 2}).stratum == 2
