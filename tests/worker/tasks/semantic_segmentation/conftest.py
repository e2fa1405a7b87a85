"""A small set of shapes with masks, and jobs that train on it."""

from functools import partial

import pytest

from bench.training import shape_sets
from tests.worker.conftest import merged
from tests.worker.job_dirs import write_job

SIDE = 64
write_masked = partial(shape_sets.write_masked, num_train=24, num_test=8, side=SIDE)


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
