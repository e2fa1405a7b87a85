"""Detection and segmentation through the trainer, as a real process that is killed."""

import signal

import pytest

from tests.integration.trainer.runs import (
    PATIENCE_SECONDS,
    TRAINER,
    events,
    losses,
    run_here,
    write_job,
)
from tests.waiting import wait_for
from tests.worker.tasks.instance_segmentation.conftest import write_instances
from tests.worker.tasks.object_detection.conftest import write_shapes
from tests.worker.tasks.semantic_segmentation.conftest import write_masked
from tests.worker.trainer.instances.conftest import TINY

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("task", "write", "model"),
    [
        ("object-detection", write_shapes, "auto"),
        ("semantic-segmentation", write_masked, "auto"),
        ("instance-segmentation", write_instances, {"name": "rf_detr", "config": TINY}),
    ],
)
def test_a_killed_run_resumes_to_the_same_curve(
    tmp_path, trainer_cache, start_warm, task, write, model
):
    (tmp_path / "images").mkdir()
    dataset = write(tmp_path / "images", num_train=18, num_test=2)
    training = {"epochs": 12, "batch_size": 8, "precision": "fp32", "compile": "off"}
    spec = {"task": task, "dataset": dataset.name, "model": model, "training": training}

    def make(name, resume=None):
        cache = str(trainer_cache)
        return write_job(tmp_path / name, spec, dataset=dataset, cache_dir=cache, resume=resume)

    straight = make("straight")
    run_here(straight)
    killed = make("killed")
    child = start_warm(*TRAINER, killed.root)
    wait_for(lambda: len(events(killed, "checkpoint")) > 2, seconds=PATIENCE_SECONDS)
    child.kill()
    assert child.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    newest = events(killed, "checkpoint")[-1]
    assert newest["step"] < max(losses(straight))
    resumed = make("killed", resume=newest["file"])
    run_here(resumed)
    assert losses(resumed) == losses(straight)
