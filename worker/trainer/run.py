"""Runs one job from its order to `trained.json`: prepare, rehearse the export, train.

A task without an export runs straight to its result. A model that is not a network of torch is
trained by `worker.trainer.estimators` instead of the loop.
"""

import contextlib
import os

import torch

from redkiln.spec.job_spec import TrainingSpec
from redkiln.status import Phase
from redkiln.views.comparison import CrossValidation
from worker.checkpoints.checkpoint import CheckpointStore, write_durably
from worker.export.rehearsal import is_rehearsed, rehearsal_key
from worker.export.remote_rehearsal import Rehearsal, ask
from worker.jobdir import JobDir, Order
from worker.process.boundary import run_guarded
from worker.process.event_log import EventLog
from worker.process.handover import find_connection
from worker.process.lifetime import StopSignal
from worker.results.trained import Trained
from worker.trainer.building import build_loop, open_job_device, parse_order
from worker.trainer.compiling import watch_kernels
from worker.trainer.devices import (
    describe_environment,
)
from worker.trainer.estimators.run import train_estimator
from worker.trainer.fine_tuning import fine_tune, rehearse_fine_tuning
from worker.trainer.loop.loop import Loop
from worker.trainer.models.own_source import blaming_own_code
from worker.trainer.patches import apply_patches
from worker.trainer.ranks.distributed import (
    defer_peer_loss,
    meet,
    order_of_rank,
    rank_number,
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


def _run_watched(
    job_dir: JobDir, order: Order, stop: StopSignal, event_log: EventLog, load_task: LoadTask
) -> None:
    with watch_kernels(event_log, os.environ):
        _run(job_dir, order, stop, event_log, load_task)


def _run(
    job_dir: JobDir, order: Order, stop: StopSignal, event_log: EventLog, load_task: LoadTask
) -> None:
    spec = parse_order(order)
    order = order.model_copy(update={"patches": apply_patches(order.patches)})
    if isinstance(spec, TrainingSpec) and spec.is_estimator:
        train_estimator(job_dir, order, spec, stop, event_log, task=load_task(spec.task))
        return
    if isinstance(spec, TrainingSpec):
        with blaming_own_code(order.bundle_path):
            _train(job_dir, order, spec, stop, event_log, load_task)
        return
    event_log.enter(Phase.PREPARING)
    device = open_job_device(order, spec)
    load_task(spec.task).run(job_dir, order, spec, device=device, event_log=event_log)
    event_log.flush_points()


def _train(
    job_dir: JobDir,
    order: Order,
    spec: TrainingSpec,
    stop: StopSignal,
    event_log: EventLog,
    load_task: LoadTask,
) -> None:
    with defer_peer_loss(lambda: stop.requested, device=order.device):
        ranks = meet(job_dir, os.environ, is_gpu=order.device != "cpu")
        loop, setup = build_loop(
            job_dir,
            order,
            spec,
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
        finished_early=order.is_finishing and loop.step < setup.plan.steps,
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
