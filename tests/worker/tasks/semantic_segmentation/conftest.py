"""A small set of shapes with masks, and jobs that train on it."""

import numpy as np
import pytest

from examples.detection.make_shapes import CLASSES, draw_images, draw_mask
from redkiln.annotations import MaskedImage, SegmentationIndex
from redkiln.datasets import rank_within_classes
from redkiln.predict.masks.coding import pack_mask
from tests.worker.conftest import merged
from tests.worker.job_dirs import write_job
from worker.jobdir import LocalDataset

SIDE = 64


def write_masked(folder, *, num_train=24, num_test=8, side=SIDE):
    """Write images and their index with masks."""
    images = []
    for number, (image, shapes) in enumerate(draw_images(num_train + num_test, size=side)):
        image.save(folder / f"{number}.png")
        mask = np.asarray(draw_mask(shapes, size=side))
        images.append(
            MaskedImage(
                path=f"{number}.png",
                width=side,
                height=side,
                label=shapes[0].label + 1,
                labels=np.unique(mask).tolist(),
                mask=pack_mask(mask),
                mask_size=(side, side),
                rank=0,
            )
        )
    index = SegmentationIndex(
        mask_format="png",
        classes=["background", *CLASSES],
        splits={"train": _rank(images[:num_train]), "test": _rank(images[num_train:])},
        image_size=(side, side),
        mixed_sizes=False,
        channels=3,
        seed=0,
    )
    (folder / "index.json").write_text(index.model_dump_json())
    return LocalDataset(
        name="masked",
        kind="folder",
        path=str(folder),
        index_path=str(folder / "index.json"),
        fingerprint=f"masks of {folder}",
    )


def _rank(images):
    ranks = rank_within_classes([image.stratum for image in images], seed=0)
    return [
        image.model_copy(update={"rank": rank}) for image, rank in zip(images, ranks, strict=True)
    ]


@pytest.fixture(scope="session")
def masked(tmp_path_factory):
    return write_masked(tmp_path_factory.mktemp("masked"))


def make_job(root, *, dataset, cache_dir, order=None, **spec):
    """A job directory at `root`; keyword arguments change the spec, `order` changes the order."""
    base = {
        "task": "semantic-segmentation",
        "dataset": "masked",
        "training": {"epochs": 2, "batch_size": 8, "precision": "fp32", "compile": "off"},
    }
    paths = {"cache_dir": str(cache_dir), **(order or {})}
    return write_job(root, merged(base, spec), dataset=dataset, **paths)


@pytest.fixture
def make_segmentation_job(tmp_path, masked, cache_dir):
    """Makes a job directory; see `make_job`."""

    def make(name="job", *, dataset=None, **changes):
        return make_job(tmp_path / name, dataset=dataset or masked, cache_dir=cache_dir, **changes)

    return make
