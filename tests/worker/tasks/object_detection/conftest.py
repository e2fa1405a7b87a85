"""A small set of shapes with boxes, and jobs that train on it."""

import json
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from bench.training.shape_sets import write_boxed
from tests.worker.conftest import merged
from tests.worker.job_dirs import write_job

SIDE = 64
write_shapes = partial(write_boxed, num_train=24, num_test=8, side=SIDE)


def widen(dataset, size):
    """Enlarge the images of a set, and what its index says about them."""
    index_path = Path(dataset.index_path)
    index = json.loads(index_path.read_text())
    for image in index["splits"]["train"] + index["splits"]["test"]:
        image["width"], image["height"] = size
        path = Path(dataset.path) / image["path"]
        with Image.open(path) as picture:
            picture.resize(size, Image.Resampling.NEAREST).save(path, compress_level=1)
    index_path.write_text(json.dumps(index))


@pytest.fixture(scope="session")
def shapes(tmp_path_factory):
    return write_shapes(tmp_path_factory.mktemp("shapes"))


@pytest.fixture
def make_shapes(tmp_path):
    """Writes a separate set for a test; see `write_shapes`."""

    def make(name="own", **options):
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
