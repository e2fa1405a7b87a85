"""A small set of shapes with boxes, and jobs that train on it."""

import pytest

from examples.detection.make_shapes import CLASSES, draw_images
from redkiln.annotations import AnnotatedImage, Box, DetectionIndex
from redkiln.datasets import rank_within_classes
from tests.worker.conftest import merged
from tests.worker.job_dirs import write_job
from worker.jobdir import LocalDataset

SIDE = 64


def write_shapes(folder, *, num_train=24, num_test=8, side=SIDE, boxes_of=None):
    """Write images and their index; `boxes_of` changes the boxes of an image's number."""
    images = []
    for number, (image, shapes) in enumerate(draw_images(num_train + num_test, size=side)):
        image.save(folder / f"{number}.png")
        boxes = [Box(label=shape.label, xyxy=shape.box) for shape in shapes]
        boxes = boxes if boxes_of is None else boxes_of(number, boxes)
        label = min((box.label for box in boxes if not box.crowd), default=None)
        images.append(
            AnnotatedImage(
                path=f"{number}.png", width=side, height=side, label=label, boxes=boxes, rank=0
            )
        )
    index = DetectionIndex(
        classes=list(CLASSES),
        splits={"train": _rank(images[:num_train]), "test": _rank(images[num_train:])},
        image_size=(side, side),
        mixed_sizes=False,
        channels=3,
        seed=0,
        annotation_format="coco",
    )
    (folder / "index.json").write_text(index.model_dump_json())
    return LocalDataset(
        name="shapes",
        kind="folder",
        path=str(folder),
        index_path=str(folder / "index.json"),
        fingerprint=f"shapes of {folder}",
    )


def _rank(images):
    ranks = rank_within_classes([image.stratum for image in images], seed=0)
    return [
        image.model_copy(update={"rank": rank}) for image, rank in zip(images, ranks, strict=True)
    ]


@pytest.fixture(scope="session")
def shapes(tmp_path_factory):
    return write_shapes(tmp_path_factory.mktemp("shapes"))


@pytest.fixture
def make_shapes(tmp_path):
    """Writes a separate set for a test; see `write_shapes`."""

    def make(name="own", **options):
        (tmp_path / name).mkdir()
        return write_shapes(tmp_path / name, **options)

    return make


def make_job(root, *, dataset, cache_dir, order=None, **spec):
    """A job directory at `root`; keyword arguments change the spec, `order` changes the order."""
    base = {
        "task": "object-detection",
        "dataset": "shapes",
        "training": {"epochs": 2, "batch_size": 8, "precision": "fp32", "compile": "off"},
    }
    paths = {"cache_dir": str(cache_dir), **(order or {})}
    return write_job(root, merged(base, spec), dataset=dataset, **paths)


@pytest.fixture
def make_detection_job(tmp_path, shapes, cache_dir):
    """Makes a job directory; see `make_job`."""

    def make(name="job", *, dataset=None, **changes):
        return make_job(tmp_path / name, dataset=dataset or shapes, cache_dir=cache_dir, **changes)

    return make
