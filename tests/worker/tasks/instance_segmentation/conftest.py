"""A small set of shapes with the mask of each, and jobs that train a tiny RF-DETR on it."""

from functools import partial

import pytest

from tests.worker.conftest import merged
from tests.worker.job_dirs import write_job
from tests.worker.tasks.object_detection.conftest import write_shapes
from tests.worker.trainer.instances.conftest import TINY

write_instances = partial(write_shapes, has_masks=True)


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
