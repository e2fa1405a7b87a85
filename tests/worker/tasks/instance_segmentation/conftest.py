"""A small set of shapes with the mask of each, and jobs that train a tiny RF-DETR on it."""

import numpy as np
import pytest

from examples.detection.make_shapes import CLASSES, draw_images, draw_mask
from redkiln.annotations import AnnotatedImage, Box, DetectionIndex, ObjectMask
from redkiln.predict.masks.coding import pack_mask
from tests.worker.conftest import merged
from tests.worker.job_dirs import write_job
from tests.worker.tasks.object_detection.conftest import _rank
from tests.worker.trainer.instances.conftest import TINY
from worker.jobdir import LocalDataset

SIDE = 64


def cut_out(shape, *, size=SIDE):
    """An object of an index: its mask, and the box around it."""
    mask = (np.asarray(draw_mask([shape], size=size)) > 0).astype(np.uint8)
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    left, top, right, bottom = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    inside = mask[top:bottom, left:right]
    packed = ObjectMask(packed=pack_mask(inside), size=inside.shape[::-1])
    return Box(label=shape.label, xyxy=(left, top, right, bottom), mask=packed)


def write_instances(folder, *, num_train=24, num_test=8, side=SIDE):
    """Write images and their index with the mask of each object."""
    images = []
    for number, (image, shapes) in enumerate(draw_images(num_train + num_test, size=side)):
        image.save(folder / f"{number}.png")
        boxes = [cut_out(shape, size=side) for shape in shapes]
        label = min(box.label for box in boxes)
        images.append(
            AnnotatedImage(
                path=f"{number}.png", width=side, height=side, label=label, boxes=boxes, rank=0
            )
        )
    index = DetectionIndex(
        task="instance-segmentation",
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
        name="instances",
        kind="folder",
        path=str(folder),
        index_path=str(folder / "index.json"),
        fingerprint=f"instances of {folder}",
    )


@pytest.fixture(scope="session")
def instances(tmp_path_factory):
    return write_instances(tmp_path_factory.mktemp("instances"))


def make_job(root, *, dataset, cache_dir, order=None, **spec):
    """A job directory at `root`; keyword arguments change the spec, `order` changes the order."""
    base = {
        "task": "instance-segmentation",
        "dataset": "instances",
        "model": {"config": TINY},
        "training": {"epochs": 2, "batch_size": 8, "precision": "fp32"},
    }
    paths = {"cache_dir": str(cache_dir), **(order or {})}
    return write_job(root, merged(base, spec), dataset=dataset, **paths)


@pytest.fixture
def make_instance_job(tmp_path, instances, cache_dir):
    """Makes a job directory; see `make_job`."""

    def make(name="job", *, dataset=None, **changes):
        dataset = dataset or instances
        return make_job(tmp_path / name, dataset=dataset, cache_dir=cache_dir, **changes)

    return make
