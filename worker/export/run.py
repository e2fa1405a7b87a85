"""From `trained.json` to the job's artifacts: export, compare, score and report.

model.onnx  manifest.json  parity.npz  metrics.csv  curves.png  confusion.png  report.md
checkpoint.safetensors  trainer.log

A regression writes predictions.png instead of confusion.png; a classifier also evaluation.json, and
mistakes.png if its samples are images; a task may add its own files.
"""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch

from redkiln.events import EventKind
from redkiln.failure import FailureCode
from redkiln.status import Phase
from redkiln.tasks import parse_spec
from redkiln.views.job import Progress
from worker.checkpoints.checkpoint import CheckpointStore
from worker.checkpoints.history import History
from worker.export.baselines.compare import Standing, find_standing, find_warning
from worker.export.card import card, figures
from worker.export.card.curve_file import write_metrics
from worker.export.evaluate import Evaluation, evaluate_both
from worker.export.evaluation_file import write_evaluation
from worker.export.manifest import build_manifest, to_metadata
from worker.export.onnx_file import describe_file, write_onnx
from worker.export.outputs import Outputs
from worker.export.parity import GateResult, judge
from worker.export.samples import choose_samples, choose_saved
from worker.export.target import ExportTarget, LoadTask
from worker.export.variants.advice import render_variants
from worker.export.variants.run import PICTURE, Variants, VariantWriter
from worker.jobdir import JobDir, Order
from worker.process.boundary import run_guarded
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.results.trained import Trained

MOST_METADATA_BYTES = 90_000_000
"""Most metadata in a checkpoint: safetensors writes a header of up to 100 MB, which also has the
tensors' names. Source: safetensors' format, MAX_HEADER_SIZE."""


@dataclass(frozen=True)
class Context:
    """Inputs shared by all parts of an export.

    Attributes:
        history: History of the whole training.
        weights: Weights of the best checkpoint, by the network's own names.
        target: The task's model, samples and texts.
    """

    order: Order
    trained: Trained
    history: History
    weights: dict[str, torch.Tensor]
    target: ExportTarget

    @property
    def model_name(self) -> str:
        """Name of the model in the spec."""
        return str(self.trained.spec["model"]["name"])


def export_job(job_dir: JobDir, *, load_task: LoadTask) -> int:
    """Export the trained job in a directory; its events record the outcome.

    Returns:
        The exit status (`worker.jobdir`).
    """
    order = job_dir.load_order()
    return run_guarded(
        job_dir,
        order,
        device="cpu",
        body=lambda event_log: _export(job_dir, order, event_log, load_task),
    )


def _export(job_dir: JobDir, order: Order, event_log: EventLog, load_task: LoadTask) -> None:
    event_log.enter(Phase.EXPORTING)
    torch.set_num_threads(order.threads)
    figures.use_quiet_backend(order.paths.cache_dir)
    context = _load(job_dir, order, event_log, load_task)
    event_log.seconds.update(context.trained.seconds)
    outputs = Outputs(job_dir)
    _write_training_files(context, outputs, event_log)
    target = context.target
    metadata = to_metadata(
        job_id=order.job_id,
        task=target.spec.task,
        output=target.scoring.describe(),
        preprocessing=target.preprocessing,
    )
    model_path = outputs.path("model.onnx")
    write_onnx(target.exportable, model_path, opset=target.spec.export.opset, metadata=metadata)
    event_log.enter(Phase.VERIFYING)
    evaluation = _evaluate(context, model_path, event_log)
    verdict = judge(
        target.spec.export,
        difference=evaluation.difference,
        metric_drop=evaluation.metric_drop,
        words=target.scoring.explain_drop(evaluation.metric_drop),
    )
    outputs.add("model.onnx", verified=verdict.verified)
    writer = VariantWriter(
        target,
        evaluation,
        metadata,
        outputs,
        order.threads,
        _build_alive_report(context, event_log),
    )
    variants = writer.write_all(verdict)
    _write_parity(context, evaluation, outputs)
    metrics = {f"test/{name}": value for name, value in evaluation.metrics.items()}
    metrics |= context.trained.metrics
    standing = find_standing(
        target,
        outputs=evaluation.test[0],
        metrics=evaluation.metrics,
        training_seconds=event_log.seconds.get(Phase.TRAINING, 0.0),
    )
    seconds = {name: round(value, 3) for name, value in event_log.settle().items()}
    _write_report(context, evaluation, verdict, standing, metrics, seconds, variants, outputs)
    _write_manifest(
        context, evaluation, verdict, standing, metrics, seconds, variants, job_dir, outputs
    )
    first_step_at = context.trained.first_step_at
    event_log.write(
        EventKind.RESULT,
        metrics=metrics,
        intervals=standing.intervals,
        comparison=standing.comparison.model_dump(mode="json"),
        threshold=evaluation.threshold and evaluation.threshold.model_dump(mode="json"),
        cross_validation=_folds(context),
        verified=verdict.verified,
        timings=event_log.settle(),
        first_step_at=first_step_at and first_step_at.isoformat(),
    )
    if warning := find_warning(standing.comparison):
        event_log.warning(warning.code, warning.message)
    _announce(context, verdict, variants, event_log)


def _load(job_dir: JobDir, order: Order, event_log: EventLog, load_task: LoadTask) -> Context:
    trained = Trained.model_validate_json(job_dir.trained_path.read_bytes())
    store = CheckpointStore(job_dir.checkpoints_dir)
    best, last = store.load(trained.best), store.load(trained.last)
    spec = parse_spec(trained.spec)
    open_target = load_task(spec.task).open_target
    return Context(
        order=order,
        trained=trained,
        history=History.from_tensors(last.tensors_of("history")),
        weights=best.weights,
        target=open_target(
            order, spec, weights=best.weights, event_log=event_log, reading=best.reading
        ),
    )


def _write_training_files(context: Context, outputs: Outputs, event_log: EventLog) -> None:
    """Write files that are useful even if the export fails: weights, metrics and their curves."""
    trained, target = context.trained, context.target
    facts = {**target.scoring.describe(), "preprocessing": target.preprocessing}
    # Needed by another job that starts from this one: worker.trainer.models.from_job.
    description = {
        "task": target.spec.task,
        "model": json.dumps(trained.spec["model"], separators=(",", ":")),
        **{name: json.dumps(value) for name, value in facts.items()},
    }
    if target.reading is not None:
        whole = {**description, "reading": target.reading}
        if len(json.dumps(whole)) <= MOST_METADATA_BYTES:
            description = whole
        else:
            message = (
                f"the description of how samples are read is larger than "
                f"{MOST_METADATA_BYTES // 10**6} MB, too large for a checkpoint: no other job can "
                "start from this one's weights"
            )
            event_log.warning("reading_too_large", message)
    safetensors.torch.save_file(
        context.weights, outputs.path("checkpoint.safetensors"), metadata=description
    )
    outputs.add("checkpoint.safetensors")
    write_metrics(
        context.history,
        outputs.path("metrics.csv"),
        training=None if target.spec.is_estimator else target.spec.training,
        steps=trained.planned_steps,
        steps_per_epoch=trained.steps_per_epoch,
    )
    outputs.add("metrics.csv")
    figures.draw_curves(
        context.history,
        outputs.path("curves.png"),
        title=f"{context.order.job_name}: {context.model_name}",
        best_step=trained.best_step,
        steps_per_epoch=trained.steps_per_epoch,
        metric=target.scoring.curve,
    )
    outputs.add("curves.png")
    for name, content in target.files.items():
        outputs.path(name).write_bytes(content)
        outputs.add(name)


def _build_alive_report(context: Context, event_log: EventLog) -> Callable[[], None]:
    """Return what reports progress, if it is due, while the export works."""
    trained = context.trained
    epochs = math.ceil(trained.steps / trained.steps_per_epoch)
    done = Progress(
        epoch=epochs,
        epochs=epochs,
        step=trained.steps,
        steps=trained.steps,
        fraction=1.0,
        preview=trained.preview,
        metrics=context.history.newest(),
    )

    def report_alive() -> None:
        if event_log.is_progress_due():
            event_log.progress(done)

    return report_alive


def _evaluate(context: Context, model_path: Path, event_log: EventLog) -> Evaluation:
    rows = context.target.rows
    others = np.concatenate([rows["validation"], rows["train"]])
    compared = choose_samples(test=rows["test"], others=others)
    return evaluate_both(
        context.target,
        model_path,
        compared=compared,
        threads=context.order.threads,
        on_batch=_build_alive_report(context, event_log),
    )


def _write_parity(context: Context, evaluation: Evaluation, outputs: Outputs) -> None:
    target, rows = context.target, evaluation.rows
    one = target.samples.get(rows[:1])
    saved = choose_saved(len(rows), bytes_each=sum(array.nbytes for array in one.values()))
    arrays: dict[str, Any] = {
        **target.samples.get(rows[saved]),
        target.scoring.targets_name: evaluation.targets[saved],
        target.exportable.output: evaluation.outputs[saved],
        "is_test": saved < evaluation.num_test,
    }
    np.savez_compressed(outputs.path("parity.npz"), **arrays)
    outputs.add("parity.npz")


def _write_report(
    context: Context,
    evaluation: Evaluation,
    verdict: GateResult,
    standing: Standing,
    metrics: dict[str, float],
    seconds: dict[str, float],
    variants: Variants,
    outputs: Outputs,
) -> None:
    order, trained, target = context.order, context.trained, context.target
    scoring, noun = target.scoring, target.samples.noun
    scoring.draw(*evaluation.test, outputs.path(scoring.figure), title=order.job_name)
    outputs.add(scoring.figure)
    write_evaluation(target, evaluation.test, outputs)
    facts = card.CardFacts(
        job_name=order.job_name,
        job_id=order.job_id,
        dataset=order.required_dataset.name,
        dataset_notes=target.notes,
        fingerprint=order.required_dataset.fingerprint,
        noun=noun,
        texts=target.texts,
        headline=scoring.describe_headline(metrics),
        results=scoring.describe_results(*evaluation.test, noun=noun),
        output=scoring.describe_output(),
        counts=trained.counts,
        held_out_test=target.held_out_test,
        spec=trained.spec,
        num_parameters=trained.num_parameters,
        best_epoch=trained.best_epoch,
        best_step=trained.best_step,
        steps=trained.steps,
        epochs=-(-trained.steps // trained.steps_per_epoch),
        metrics=metrics,
        intervals=standing.intervals,
        comparison=standing.comparison,
        threshold=evaluation.threshold,
        cross_validation=trained.cross_validation,
        parity=evaluation.difference.as_json(),
        gate=_gate(context),
        drop=(scoring.describe_drop(), evaluation.metric_drop),
        framework=target.exportable.framework,
        verified=verdict.verified,
        misses=verdict.misses,
        model_file=describe_file(outputs.path("model.onnx")),
        environment=trained.environment,
        first_steps=trained.first_steps,
        advice=trained.advice,
        efficiency=trained.efficiency,
        seconds=seconds,
        estimated_seconds=trained.estimated_seconds,
        variants=render_variants(variants.results, advice=variants.advice, picture=PICTURE)
        if variants.results
        else "",
    )
    outputs.path("report.md").write_text(card.render_card(facts))
    outputs.add("report.md")


def _write_manifest(
    context: Context,
    evaluation: Evaluation,
    verdict: GateResult,
    standing: Standing,
    metrics: dict[str, float],
    seconds: dict[str, float],
    variants: Variants,
    job_dir: JobDir,
    outputs: Outputs,
) -> None:
    order, trained, target = context.order, context.trained, context.target
    # A snapshot: later output of this process goes into the log, not into the artifact.
    job_dir.log_path.touch()
    shutil.copyfile(job_dir.log_path, outputs.path("trainer.log"))
    outputs.add("trainer.log")
    manifest = build_manifest(
        outputs.folder,
        outputs.names,
        job={"id": order.job_id, "name": order.job_name, "attempt_id": order.attempt_id},
        task=target.spec.task,
        model={
            **describe_file(outputs.path("model.onnx")),
            "num_parameters": trained.num_parameters,
        },
        **target.scoring.describe(),
        preprocessing=target.preprocessing,
        verification={
            "verified": verdict.verified,
            "compared_with": target.exportable.framework,
            "misses": verdict.misses,
            "gate": _gate(context),
            **evaluation.difference.as_json(),
        },
        variants=[one.model_dump(mode="json") for one in variants.results],
        recommendation=variants.advice,
        metrics=metrics,
        intervals=standing.intervals,
        comparison=standing.comparison.model_dump(mode="json"),
        threshold=evaluation.threshold and evaluation.threshold.model_dump(mode="json"),
        cross_validation=_folds(context),
        dataset={
            "name": order.required_dataset.name,
            "fingerprint": order.required_dataset.fingerprint,
            "counts": trained.counts,
            "held_out_test": target.held_out_test,
        },
        best={"step": trained.best_step, "epoch": trained.best_epoch},
        spec=trained.spec,
        environment=trained.environment,
        seconds=seconds,
        efficiency=trained.efficiency and trained.efficiency.model_dump(mode="json"),
    )
    outputs.path("manifest.json").write_text(
        json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    )
    outputs.add("manifest.json")


def _announce(
    context: Context, verdict: GateResult, variants: Variants, event_log: EventLog
) -> None:
    missed = {"the exported model": verdict.misses} | {
        f"the variant {one.name}": one.misses for one in variants.results[1:]
    }
    texts = [f"{name} is unverified: {'; '.join(some)}" for name, some in missed.items() if some]
    if not texts:
        return
    message = ". ".join(texts)
    if context.target.spec.export.require_verified:
        raise TrainingFailed(FailureCode.UNVERIFIED, message)
    event_log.warning("unverified", message)


def _folds(context: Context) -> dict[str, Any] | None:
    found = context.trained.cross_validation
    return None if found is None else found.model_dump(mode="json")


def _gate(context: Context) -> dict[str, float]:
    gate = context.target.spec.export
    return {"tolerance": gate.tolerance, "max_metric_drop": gate.max_metric_drop}
