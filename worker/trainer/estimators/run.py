"""Runs a job whose model is not a network of torch, from its order to `trained.json`.

It is never rehearsed: its training takes seconds or minutes, and a library that converts it to ONNX
knows the kind of model before any data.
"""

import torch

from redkiln.events import EventKind
from redkiln.failure import FailureCode
from redkiln.spec.job_spec import TrainingSpec
from redkiln.status import Phase
from redkiln.views.comparison import CrossValidation
from worker.checkpoints.checkpoint import CheckpointStore, write_durably
from worker.jobdir import JobDir, Order
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.process.lifetime import StopSignal
from worker.results.trained import Trained
from worker.trainer.devices import describe_environment, open_device
from worker.trainer.estimators.loop import EstimatorLoop
from worker.trainer.estimators.setup import EstimatorSetup, EstimatorTask
from worker.trainer.resumed import NOTHING_TO_FINISH, find_checkpoint, report_resumed


def train_estimator(
    job_dir: JobDir,
    order: Order,
    spec: TrainingSpec,
    stop: StopSignal,
    event_log: EventLog,
    *,
    task: EstimatorTask,
) -> None:
    """Train a job's estimator and write `trained.json`.

    Raises:
        Stopped: a stop was requested; the newest state is in a checkpoint.
        TrainingFailed: the spec or the data make training impossible.
    """
    event_log.enter(Phase.PREPARING)
    open_device("cpu", threads=order.threads, wanted=spec.resources.device)
    store = CheckpointStore(job_dir.checkpoints_dir, keep_last=spec.training.keep_checkpoints)
    checkpoint = find_checkpoint(order, store, event_log)
    if order.is_finishing and checkpoint is None:
        raise TrainingFailed(FailureCode.BAD_INPUT, NOTHING_TO_FINISH)
    reading = None if checkpoint is None else checkpoint.reading
    setup = task.prepare_estimator(order, spec, event_log=event_log, reading=reading)
    environment = _describe(order)
    event_log.write(
        EventKind.RESOLVED, spec=setup.spec.model_dump(mode="json"), environment=environment
    )
    loop = EstimatorLoop(
        setup,
        store=store,
        event_log=event_log,
        should_stop=lambda: stop.requested,
        is_finishing=order.is_finishing,
    )
    if checkpoint is not None:
        loop.restore(checkpoint)
        report_resumed(order, checkpoint.manifest, event_log)
    with stop.deferred():
        loop.run()
        folds = None
        if spec.num_folds and not order.is_finishing:
            folds = task.cross_validate(
                order,
                setup.spec,
                device=torch.device("cpu"),
                event_log=event_log,
                should_stop=lambda: stop.requested,
            )
    _leave(job_dir, order, setup, loop, event_log, folds)


def _leave(
    job_dir: JobDir,
    order: Order,
    setup: EstimatorSetup,
    loop: EstimatorLoop,
    event_log: EventLog,
    folds: CrossValidation | None,
) -> None:
    manifests = {
        manifest.step: manifest for manifest in CheckpointStore(job_dir.checkpoints_dir).manifests()
    }
    best, last = manifests[loop.best_step], manifests[loop.step]
    trained = Trained(
        spec=setup.spec.model_dump(mode="json"),
        best=best.name,
        best_step=best.step,
        best_epoch=best.epoch,
        last=last.name,
        steps=loop.step,
        planned_steps=setup.rounds,
        finished_early=order.is_finishing and loop.step < setup.rounds,
        steps_per_epoch=1,
        metrics=loop.best_metrics,
        counts=setup.counts,
        num_parameters=setup.estimator.count(loop.best_step),
        first_step_at=loop.first_step_at,
        seconds=dict(event_log.settle()),
        environment=_describe(order),
        cross_validation=folds,
    )
    write_durably(job_dir.trained_path, trained.model_dump_json(indent=1).encode())
    event_log.flush_points()


def _describe(order: Order) -> dict[str, object]:
    return describe_environment(
        torch.device("cpu"), threads=torch.get_num_threads(), patches=order.patches
    )
