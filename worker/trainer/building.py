"""Builds the loop of a job: opens its device, resumes, prepares the task, and measures what pays.

Ranks: if there are several, the first one prepares before the others, which then find its decoded
data and take its resolved spec, so everything is measured once.
"""

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from redkiln.events import EventKind
from redkiln.failure import FailureCode
from redkiln.spec.job_spec import JobSpec, TrainingSpec
from redkiln.spec.problems import SpecError
from redkiln.status import Phase
from redkiln.tasks import parse_spec
from worker.checkpoints.checkpoint import Checkpoint, CheckpointStore
from worker.jobdir import JobDir, Order
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.trainer.autotune.estimate import announce_estimate
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.autotune.tuning import tune_setup
from worker.trainer.devices import (
    describe_device,
    describe_environment,
    open_device,
    switch_off_denied,
)
from worker.trainer.guard.guard import build_guard
from worker.trainer.headroom import leave_headroom
from worker.trainer.insight.insight import Insight
from worker.trainer.loop.loop import Loop
from worker.trainer.loop.trainer_process import TrainerProcess
from worker.trainer.optim.averaging import share_weights, share_work
from worker.trainer.ranks.distributed import ALONE, Ranks
from worker.trainer.resumed import (
    NOTHING_TO_FINISH,
    find_checkpoint,
    follow_checkpoint,
    is_same_device,
    report_resumed,
)
from worker.trainer.setup import LoadTask, TrainingSetup

Forward = Callable[..., Any]


def build_loop(
    job_dir: JobDir,
    order: Order,
    spec: TrainingSpec,
    *,
    event_log: EventLog,
    should_stop: Callable[[], bool],
    load_task: LoadTask,
    ranks: Ranks = ALONE,
) -> tuple[Loop, TrainingSetup]:
    """Prepare a job up to its first (or next) step, without rehearsing its export.

    Args:
        job_dir: Directory of the job.
        order: Order of the job.
        spec: The order's spec, as the user wrote it.
        event_log: Receives the resolved spec, warnings and messages.
        should_stop: Returns whether a stop was requested.
        load_task: Imports a task by its name.
        ranks: Processes that train together.

    Raises:
        TrainingFailed: the spec, the data or the device make training impossible.
    """
    event_log.enter(Phase.PREPARING)
    device = open_job_device(order, spec)
    store = CheckpointStore(job_dir.checkpoints_dir, keep_last=spec.training.keep_checkpoints)
    of_first = None if ranks.is_first else _parse_training(ranks.broadcast({}))
    checkpoint = find_checkpoint(order, store, event_log)
    if checkpoint is None:
        # Preparation must load initial weights, because nothing can be resumed.
        order = order.model_copy(update={"resume": None})
    planned = of_first or _follow(order, spec, checkpoint, device)
    setup = _prepare(order, planned, checkpoint, device, event_log, load_task)
    setup, forward = _tune(setup, order, planned, checkpoint, device, event_log, ranks)
    _share(setup, ranks, device, event_log)
    _report_resolved(setup, order, device, event_log)
    loop = Loop(
        setup,
        TrainerProcess(device, event_log, should_stop, ranks),
        store=store,
        insight=Insight(setup, job_dir=job_dir, order=order, event_log=event_log, device=device),
        guard=build_guard(device, model=setup.model, event_log=event_log),
        may_recompute=spec.training.gradient_checkpointing == "auto",
        forward=forward,
        is_finishing=order.is_finishing,
    )
    if checkpoint is not None:
        loop.restore(checkpoint)
        report_resumed(order, checkpoint.manifest, event_log)
        _look_for_best(loop, store, event_log)
    # All that exists now stays until the job ends. A full collection looked at 130,000 objects for
    # 90 ms, some every hundred steps.
    gc.freeze()
    return loop, setup


def parse_order(order: Order) -> JobSpec:
    """Parse an order's spec.

    Raises:
        TrainingFailed: the spec is not valid.
    """
    return _parse(order.spec)


def open_job_device(order: Order, spec: JobSpec) -> torch.device:
    """Open an order's device, without the features that its GPU computes wrongly.

    Raises:
        TrainingFailed: the device cannot be used.
    """
    device = open_device(order.device, threads=order.threads, wanted=spec.resources.device)
    switch_off_denied(order.denied)
    leave_headroom(device, limit_bytes=order.memory_limit_bytes)
    return device


def _parse(spec: dict[str, Any]) -> JobSpec:
    try:
        return parse_spec(spec)
    except SpecError as error:
        raise TrainingFailed(
            FailureCode.BAD_INPUT, f"the job spec is not valid: {error}"
        ) from error


def _parse_training(spec: dict[str, Any]) -> TrainingSpec:
    parsed = _parse(spec)
    assert isinstance(parsed, TrainingSpec)
    return parsed


def _follow(
    order: Order, spec: TrainingSpec, checkpoint: Checkpoint | None, device: torch.device
) -> TrainingSpec:
    """Return the spec to train with: the order's, or what its checkpoint resolved."""
    if checkpoint is None:
        if order.is_finishing:
            raise TrainingFailed(FailureCode.BAD_INPUT, NOTHING_TO_FINISH)
        return spec
    state = checkpoint.manifest.state
    is_same = is_same_device(state, here=describe_device(device))
    return _parse_training(follow_checkpoint(order.spec, state["spec"], is_same_device=is_same))


def _prepare(
    order: Order,
    spec: TrainingSpec,
    checkpoint: Checkpoint | None,
    device: torch.device,
    event_log: EventLog,
    load_task: LoadTask,
) -> TrainingSetup:
    setup = load_task(spec.task).prepare(
        order,
        spec,
        device=device,
        event_log=event_log,
        reading=None if checkpoint is None else checkpoint.reading,
    )
    training = setup.spec.training
    if training.accumulation < spec.training.accumulation:
        message = (
            f"accumulation is {training.accumulation}, not {spec.training.accumulation}: a batch "
            f"of {training.batch_size} cannot be split into more micro steps"
        )
        event_log.warning("accumulation_reduced", message)
    if training.gradient_checkpointing == "auto":
        training.gradient_checkpointing = "off"
    return setup


def _tune(
    setup: TrainingSetup,
    order: Order,
    spec: TrainingSpec,
    checkpoint: Checkpoint | None,
    device: torch.device,
    event_log: EventLog,
    ranks: Ranks,
) -> tuple[TrainingSetup, Forward | None]:
    """Measure what makes a step fast, and how long training takes.

    Returns:
        The job, and what to call instead of its model, for instance the compiled one.
    """
    if setup.forward is not None:
        event_log.message("tinygrad: memory layout, CPU threads and training time are not measured")
        return setup, setup.forward
    if not ranks.is_alone:
        _leave_uncompiled(setup, event_log)
        return setup, None
    steps_made = 0 if checkpoint is None else min(checkpoint.manifest.step, setup.plan.steps)
    forward = tune_setup(setup, order, spec, device, event_log, steps_made=steps_made)
    if order.is_finishing:
        return setup, forward
    seconds = announce_estimate(
        setup,
        steps_made=steps_made,
        device=device,
        remembered=Remembered.on(device, order.paths.cache_dir),
        event_log=event_log,
    )
    return replace(setup, estimated_seconds=seconds), forward


def _leave_uncompiled(setup: TrainingSetup, event_log: EventLog) -> None:
    if setup.spec.training.compile == "default":
        message = "training on several GPUs does not use torch.compile; compile is now off"
        event_log.warning("not_compiled", message)
    setup.spec.training.compile = "off"


def _share(setup: TrainingSetup, ranks: Ranks, device: torch.device, event_log: EventLog) -> None:
    """Give each rank its part of the batches, and every rank the first one's spec and weights."""
    share_work(setup, ranks, device=device, event_log=event_log)
    if ranks.is_first:
        ranks.broadcast(setup.spec.model_dump(mode="json"))
    share_weights(setup.model, ranks)


def _report_resolved(
    setup: TrainingSetup, order: Order, device: torch.device, event_log: EventLog
) -> None:
    environment = {
        **describe_environment(device, threads=torch.get_num_threads(), patches=order.patches),
        **setup.facts,
    }
    resolved = setup.spec.model_dump(mode="json")
    event_log.write(EventKind.RESOLVED, spec=resolved, environment=environment)


def _look_for_best(loop: Loop, store: CheckpointStore, event_log: EventLog) -> None:
    """Let the next evaluation become the best if the best checkpoint is gone, as after a retry.

    Without validation there is nothing to do: the newest epoch is always the best.
    """
    if not loop.best_metrics or store.find_best() is not None:
        return
    scores = ", ".join(f"{name} {value:.4g}" for name, value in loop.best_metrics.items())
    loop.forget_best()
    message = (
        f"the best checkpoint so far ({scores}) no longer exists; the best one is chosen from the "
        "epochs after this step"
    )
    event_log.warning("best_gone", message)
