"""Trainers that need not import torch again."""

import pytest

from tests.forked import WarmProcess
from tests.integration.conftest import starting

TASKS = [
    f"worker.tasks.{name}"
    for name in (
        "image_classification",
        "instance_segmentation",
        "object_detection",
        "semantic_segmentation",
    )
]


@pytest.fixture(scope="session")
def shared_trainer():
    """A process that has imported what trainers import."""
    process = WarmProcess(["worker.trainer"], more=["worker.tasks.train", *TASKS])
    yield process
    process.close()


@pytest.fixture
def start_warm(shared_trainer):
    """Starts trainers like `start`, as forks; test_trainer_process and test_ranks keep new ones."""
    yield from starting(shared_trainer.subprocess.Popen)
