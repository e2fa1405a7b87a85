"""The trainer with all tasks plugged in: what `python -m worker.trainer` runs."""

from collections.abc import Callable
from functools import partial

from redkiln.spec.job_spec import TrainingSpec
from worker.jobdir import JobDir, Order
from worker.process.event_log import EventLog
from worker.tasks import load_task
from worker.trainer import building, run
from worker.trainer.loop.loop import Loop
from worker.trainer.setup import TrainingSetup

run_job = partial(run.run_job, load_task=load_task)


def build_loop(
    job_dir: JobDir, order: Order, *, event_log: EventLog, should_stop: Callable[[], bool]
) -> tuple[Loop, TrainingSetup]:
    """Prepare a job of one process up to its first step, for tests and benchmarks.

    Raises:
        TrainingFailed: the spec, the data or the device make training impossible.
    """
    spec = building.parse_order(order)
    assert isinstance(spec, TrainingSpec), f"{spec.task} has no training loop"
    return building.build_loop(
        job_dir, order, spec, event_log=event_log, should_stop=should_stop, load_task=load_task
    )
