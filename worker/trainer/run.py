"""Runs one job from its order to `trained.json`: prepare, rehearse the export, train.

A task without an export runs straight to its result. A model that is not a network of torch is
trained by `worker.trainer.estimators` instead of the loop.
"""

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from redkiln.events import EventKind
from redkiln.failure import FailureCode
from redkiln.spec.job_spec import JobSpec, Training, TrainingSpec
from redkiln.spec.problems import SpecError
from redkiln.status import Phase
from redkiln.tasks import parse_spec
from redkiln.views.comparison import CrossValidation
from worker.checkpoints.checkpoint import Checkpoint, CheckpointStore, write_durably
from worker.export.rehearsal import is_rehearsed, rehearsal_key
from worker.export.remote_rehearsal import Rehearsal, ask
from worker.jobdir import JobDir, Order
from worker.process.boundary import run_guarded
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.process.handover import find_connection
from worker.process.lifetime import StopSignal
from worker.results.trained import Trained
from worker.trainer.autotune.estimate import announce_estimate
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.autotune.tuning import tune_setup
from worker.trainer.compiling import watch_kernels
from worker.trainer.devices import (
    describe_device,
    describe_environment,
    open_device,
    switch_off_denied,
)
from worker.trainer.estimators.run import train_estimator
from worker.trainer.fine_tuning import fine_tune, rehearse_fine_tuning
from worker.trainer.guard.guard import build_guard
from worker.trainer.headroom import leave_headroom
from worker.trainer.insight.insight import Insight
from worker.trainer.loop.loop import Loop
from worker.trainer.loop.trainer_process import TrainerProcess
from worker.trainer.models.own_source import blaming_own_code
from worker.trainer.optim.averaging import share_weights, share_work
from worker.trainer.patches import apply_patches
from worker.trainer.ranks.distributed import (
    ALONE,
    Ranks,
    defer_peer_loss,
    meet,
    order_of_rank,
    rank_number,
)
from worker.trainer.resumed import (
    NOTHING_TO_FINISH,
    find_checkpoint,
    follow_checkpoint,
    is_same_device,
    report_resumed,
)
from worker.trainer.setup import LoadTask, TrainingSetup


def run_job(job_dir: JobDir, stop: StopSignal, *, load_task: LoadTask) -> int:
    """Run the job in a directory; its events record the outcome.

    Returns:
        The exit status (`worker.jobdir`).
    """
    order = order_of_rank(job_dir.load_order(), os.environ)
    return run_guarded(
        job_dir,
        order,
        device=order.device,
        body=lambda event_log: _run_watched(job_dir, order, stop, event_log, load_task),
        rank=rank_number(os.environ),
    )


def build_loop(
    job_dir: JobDir,
    order: Order,
    *,
    event_log: EventLog,
    should_stop: Callable[[], bool],
    load_task: LoadTask,
    ranks: Ranks = ALONE,
) -> tuple[Loop, TrainingSetup]:
    """Prepare a job up to its first (or next) step, without rehearsing its export.

    If there are several ranks, the first one prepares before the others, which then find its
    decoded data and take its resolved spec, so everything is measured once.

    Raises:
        TrainingFailed: the spec, the data or the device make training impossible.
    """
    event_log.enter(Phase.PREPARING)
    spec = _parse_training(order.spec)
    may_recompute = spec.training.gradient_checkpointing == "auto"
    device = _open_device(order, spec)
    store = CheckpointStore(job_dir.checkpoints_dir, keep_last=spec.training.keep_checkpoints)
    told: dict[str, Any] | None = None if ranks.is_first else ranks.tell({})
    checkpoint = find_checkpoint(order, store, event_log)
    if checkpoint is None:
        # Preparation must load initial weights, because nothing can be resumed.
        order = order.model_copy(update={"resume": None})
    else:
        spec = _follow(order, checkpoint, device)
    if told is not None:
        spec = _parse_training(told)
    if order.is_finishing and checkpoint is None:
        raise TrainingFailed(FailureCode.BAD_INPUT, NOTHING_TO_FINISH)
    setup = load_task(spec.task).prepare(
        order,
        spec,
        device=device,
        event_log=event_log,
        reading=None if checkpoint is None else checkpoint.reading,
    )
    _warn_of_micro_steps(setup.spec.training, asked=spec.training.accumulation, event_log=event_log)
    if setup.spec.training.gradient_checkpointing == "auto":
        setup.spec.training.gradient_checkpointing = "off"
    forward = setup.forward
    if forward is not None:
        event_log.message("layout, processors and time are not measured with this engine")
    elif ranks.is_alone:
        steps_made = 0 if checkpoint is None else min(checkpoint.manifest.step, setup.plan.steps)
        forward = tune_setup(setup, order, spec, device, event_log, steps_made=steps_made)
        if not order.is_finishing:
            seconds = announce_estimate(
                setup,
                steps_made=steps_made,
                device=device,
                remembered=Remembered.on(device, order.paths.cache_dir),
                event_log=event_log,
            )
            setup = replace(setup, estimated_seconds=seconds)
    else:
        _leave_uncompiled(setup, event_log)
    share_work(setup, ranks, device=device, event_log=event_log)
    if ranks.is_first:
        ranks.tell(setup.spec.model_dump(mode="json"))
    share_weights(setup.model, ranks)
    environment = {
        **describe_environment(device, threads=torch.get_num_threads(), patches=order.patches),
        **setup.facts,
    }
    resolved = setup.spec.model_dump(mode="json")
    event_log.write(EventKind.RESOLVED, spec=resolved, environment=environment)
    loop = Loop(
        setup,
        TrainerProcess(device, event_log, should_stop, ranks),
        store=store,
        insight=Insight(setup, job_dir=job_dir, order=order, event_log=event_log, device=device),
        guard=build_guard(device, model=setup.model, event_log=event_log),
        may_recompute=may_recompute,
        forward=forward,
        is_finishing=order.is_finishing,
    )
    if checkpoint is not None:
        loop.restore(checkpoint)
        report_resumed(order, checkpoint.manifest, event_log)
        _look_for_best(loop, store, event_log)
    return loop, setup


def _run_watched(
    job_dir: JobDir, order: Order, stop: StopSignal, event_log: EventLog, load_task: LoadTask
) -> None:
    with watch_kernels(event_log, os.environ):
        _run(job_dir, order, stop, event_log, load_task)


def _run(
    job_dir: JobDir, order: Order, stop: StopSignal, event_log: EventLog, load_task: LoadTask
) -> None:
    spec = _parse(order.spec)
    order = order.model_copy(update={"patches": apply_patches(order.patches)})
    if isinstance(spec, TrainingSpec) and spec.is_estimator:
        train_estimator(job_dir, order, spec, stop, event_log, task=load_task(spec.task))
        return
    if spec.exports:
        with blaming_own_code(order.bundle_path):
            _train(job_dir, order, stop, event_log, load_task)
        return
    event_log.enter(Phase.PREPARING)
    device = _open_device(order, spec)
    load_task(spec.task).run(job_dir, order, spec, device=device, event_log=event_log)
    event_log.flush_points()


def _train(
    job_dir: JobDir, order: Order, stop: StopSignal, event_log: EventLog, load_task: LoadTask
) -> None:
    with defer_peer_loss(lambda: stop.requested, device=order.device):
        ranks = meet(job_dir, os.environ, is_gpu=order.device != "cpu")
        loop, setup = build_loop(
            job_dir,
            order,
            event_log=event_log,
            should_stop=lambda: stop.requested,
            load_task=load_task,
            ranks=ranks,
        )
        with contextlib.closing(setup):
            if ranks.is_first:
                _rehearse(order, setup, event_log)
                rehearse_fine_tuning(order, setup, event_log)
            ranks.wait()
            with stop.deferred():
                loop.run()
                fine_tuned = fine_tune(order, setup, job_dir, ranks, stop, event_log)
                folds = _cross_validate(order, setup, stop, event_log, load_task)
        ranks.close()
    if ranks.is_first:
        _leave(job_dir, order, setup, loop, event_log, folds, fine_tuned=fine_tuned)


def _cross_validate(
    order: Order, setup: TrainingSetup, stop: StopSignal, event_log: EventLog, load_task: LoadTask
) -> CrossValidation | None:
    """Score the folds after the training, so that its checkpoints are safe when they begin."""
    if not setup.spec.num_folds or order.is_finishing:
        return None
    return load_task(setup.spec.task).cross_validate(
        order,
        setup.spec,
        device=torch.device(order.device),
        event_log=event_log,
        should_stop=lambda: stop.requested,
    )


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


def _open_device(order: Order, spec: JobSpec) -> torch.device:
    device = open_device(order.device, threads=order.threads, wanted=spec.resources.device)
    switch_off_denied(order.denied)
    leave_headroom(device, limit_bytes=order.memory_limit_bytes)
    return device


def _leave_uncompiled(setup: TrainingSetup, event_log: EventLog) -> None:
    if setup.spec.training.compile == "default":
        message = "training on several GPUs does not use torch.compile; compile is now off"
        event_log.warning("not_compiled", message)
    setup.spec.training.compile = "off"


def _follow(order: Order, checkpoint: Checkpoint, device: torch.device) -> TrainingSpec:
    state = checkpoint.manifest.state
    is_same = is_same_device(state, here=describe_device(device))
    return _parse_training(follow_checkpoint(order.spec, state["spec"], is_same_device=is_same))


def _warn_of_micro_steps(training: Training, *, asked: int, event_log: EventLog) -> None:
    if training.accumulation < asked:
        message = (
            f"accumulation is {training.accumulation}, not {asked}: a batch of "
            f"{training.batch_size} cannot be split into more micro steps"
        )
        event_log.warning("accumulation_reduced", message)


def _rehearse(order: Order, setup: TrainingSetup, event_log: EventLog) -> None:
    cache_dir = order.paths.cache_dir
    exportable = setup.make_exportable()
    gate = setup.spec.export
    key = rehearsal_key(exportable.architecture, gate)
    if is_rehearsed(key, cache_dir=cache_dir):
        event_log.message("export rehearsal skipped: this architecture has already passed it here")
        return
    event_log.enter(Phase.REHEARSING)
    rehearsal = Rehearsal(exportable, gate, key, cache_dir, order.threads)
    relative = _ask_exporter(rehearsal, event_log)
    if relative is None:
        # torch.export may draw from the global generator, which must not affect training.
        state = torch.get_rng_state()
        relative = rehearsal.run()
        torch.set_rng_state(state)
    event_log.message(f"export rehearsal passed: relative output difference {relative:.1e}")


def _ask_exporter(rehearsal: Rehearsal, event_log: EventLog) -> float | None:
    connection = find_connection(os.environ)
    if connection is None:
        return None
    with connection:
        relative = ask(connection, rehearsal)
    if relative is None:
        event_log.message("the slot's exporter does not answer; the rehearsal starts cold")
    return relative


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


def _leave(
    job_dir: JobDir,
    order: Order,
    setup: TrainingSetup,
    loop: Loop,
    event_log: EventLog,
    folds: CrossValidation | None,
    *,
    fine_tuned: bool,
) -> None:
    store = CheckpointStore(job_dir.checkpoints_dir)
    last = store.manifests()[-1]
    best = store.find_best() or last
    advice = loop.find_advice()
    for text in advice:
        event_log.message(text)
    trained = Trained(
        spec=setup.spec.model_dump(mode="json"),
        best=best.name,
        best_step=best.step,
        best_epoch=best.epoch,
        last=last.name,
        steps=loop.step,
        planned_steps=setup.plan.steps,
        steps_per_epoch=setup.plan.steps_per_epoch,
        metrics=best.metrics,
        counts=setup.counts,
        num_parameters=sum(p.numel() for p in setup.model.parameters()),
        first_step_at=loop.first_step_at,
        seconds=dict(event_log.settle()),
        estimated_seconds=setup.estimated_seconds,
        environment=describe_environment(
            torch.device(order.device), threads=torch.get_num_threads(), patches=order.patches
        )
        | dict(setup.facts),
        first_steps=loop.first_steps,
        advice=advice,
        efficiency=loop.efficiency,
        preview=loop.newest_preview,
        cross_validation=folds,
        fine_tuned=fine_tuned,
    )
    write_durably(job_dir.trained_path, trained.model_dump_json(indent=1).encode())
    event_log.flush_points()
