"""From a trained model to the job's artifacts: export, compare, score and report.

model.onnx  manifest.json  parity.npz  metrics.csv  curves.png  confusion.png  report.md
report.html  checkpoint.safetensors  trainer.log

A regression writes predictions.png instead of confusion.png; a classifier also evaluation.json,
calibration.png, and if its samples are images mistakes.png and worst-mistakes.png; a task may add
its own files. A job that exports the model of another one writes neither the weights nor the curves
of the training.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from redkiln.events import EventKind
from redkiln.failure import FailureCode
from redkiln.predict.compare import suspect
from redkiln.status import Phase
from redkiln.tasks.export import NAME as EXPORT
from redkiln.views.dataset import LEAKING_COLUMNS
from worker.export.baselines.compare import find_standing
from worker.export.card import figures
from worker.export.context import Context, build_alive_report, load_context
from worker.export.evaluate import Evaluation, evaluate_both
from worker.export.manifest import to_metadata
from worker.export.onnx_file import write_onnx
from worker.export.outputs import Outputs
from worker.export.parity import GateResult, judge
from worker.export.result_files import Findings, write_manifest, write_parity, write_report
from worker.export.samples import choose_samples
from worker.export.source import load_source
from worker.export.target import LoadTask
from worker.export.training_files import write_training_files
from worker.export.variants.loading import check_loads
from worker.export.variants.providers import run_providers
from worker.export.variants.run import VariantWriter
from worker.export.variants.slimming import Slimming, slim
from worker.jobdir import JobDir, Order
from worker.process.boundary import run_guarded
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed

PLAIN = ".plain.onnx"
"""The model as it was exported, from which the variants are made; not published."""


class _Finished(NamedTuple):
    """The finished `model.onnx`: how it did, its verdict, and its clean-up if it was asked for."""

    evaluation: Evaluation
    verdict: GateResult
    slimming: Slimming | None


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
    write_training_files(context, outputs, event_log)
    metadata = _write_model(context, outputs)
    event_log.enter(Phase.VERIFYING)
    findings = _measure(context, metadata, outputs, event_log)
    write_report(context, findings, outputs)
    write_manifest(context, findings, job_dir, outputs)
    _report_result(context, findings, event_log)
    _announce(context, findings, event_log)


def _load(job_dir: JobDir, order: Order, event_log: EventLog, load_task: LoadTask) -> Context:
    if order.spec.get("task") == EXPORT:
        return load_source(order, event_log, load_task)
    return load_context(job_dir, order, event_log, load_task)


def _write_model(context: Context, outputs: Outputs) -> dict[str, str]:
    """Write `model.onnx`, and return the metadata of all ONNX files."""
    target = context.target
    metadata = to_metadata(
        job_id=context.order.job_id,
        task=target.spec.task,
        output=target.scoring.describe(),
        preprocessing=target.preprocessing,
    )
    path = outputs.path("model.onnx")
    write_onnx(target.exportable, path, opset=target.spec.export.opset, metadata=metadata)
    return metadata


def _finish_model(context: Context, outputs: Outputs, event_log: EventLog) -> _Finished:
    """Clean `model.onnx` up and embed its preparation, if asked, and judge it.

    A cleaned file that cannot be run or misses the gate is replaced by the file as it was.
    """
    target, path, plain = context.target, outputs.path("model.onnx"), outputs.path(PLAIN)
    shutil.copyfile(path, plain)
    slimming = slim(path, target.exportable) if target.spec.export.slim else None
    if slimming is not None and slimming.kept:
        try:
            check_loads(path)
        except ValueError as error:
            slimming = replace(slimming, kept=False, reason=str(error))
            shutil.copyfile(plain, path)
    while True:
        if target.embedding is not None:
            target.embedding.apply(path)
        evaluation = _evaluate(context, path, event_log)
        verdict = _judge(context, evaluation)
        if verdict.verified or slimming is None or not slimming.kept:
            return _Finished(evaluation, verdict, slimming)
        slimming = replace(slimming, kept=False, reason="; ".join(verdict.misses))
        shutil.copyfile(plain, path)


def _measure(
    context: Context, metadata: dict[str, str], outputs: Outputs, event_log: EventLog
) -> Findings:
    """Compare, judge and score `model.onnx`, and write the variants."""
    target = context.target
    evaluation, verdict, slimming = _finish_model(context, outputs, event_log)
    outputs.add("model.onnx", verified=verdict.verified)
    variants = VariantWriter(
        target,
        evaluation,
        metadata,
        outputs,
        context.order.threads,
        build_alive_report(context, event_log),
        context.fine_tuned,
        source=outputs.path(PLAIN),
    ).write_all(verdict)
    outputs.path(PLAIN).unlink(missing_ok=True)
    verdict = variants.extend(verdict)
    outputs.add("model.onnx", verified=verdict.verified)
    write_parity(context, evaluation, outputs)
    standing = find_standing(
        target,
        outputs=evaluation.test[0],
        of_file=evaluation.onnx[: evaluation.num_test],
        metrics=evaluation.metrics,
        training_seconds=event_log.seconds.get(Phase.TRAINING, 0.0),
    )
    metrics = {f"test/{name}": value for name, value in evaluation.metrics.items()}
    seconds = {name: round(value, 3) for name, value in event_log.settle().items()}
    return Findings(
        evaluation,
        verdict,
        standing,
        metrics | context.trained.metrics,
        seconds,
        variants,
        slimming,
        run_providers(outputs.path("model.onnx"), target, evaluation),
        folds=context.trained.cross_validation,
        model_name=context.model_name,
    )


def _evaluate(context: Context, model_path: Path, event_log: EventLog) -> Evaluation:
    rows, folds = context.target.rows, context.trained.cross_validation
    others = np.concatenate([rows["validation"], rows["train"]])
    compared = choose_samples(test=rows["test"], others=others)
    return evaluate_both(
        context.target,
        model_path,
        compared=compared,
        threads=context.order.threads,
        on_batch=build_alive_report(context, event_log),
        by_folds=None if folds is None else folds.threshold,
    )


def _judge(context: Context, evaluation: Evaluation) -> GateResult:
    target = context.target
    answers = target.exportable.answers
    verdict = judge(
        target.spec.export,
        difference=evaluation.difference,
        metric_drop=evaluation.metric_drop,
        words=target.scoring.explain_drop(evaluation.metric_drop),
        least_agreement=0.0 if answers is None else answers.least_agreement,
    )
    if target.embedding is not None and (misses := target.embedding.find_misses()):
        verdict = replace(verdict, verified=False, misses=[*verdict.misses, *misses])
    if verdict.verified:
        return verdict
    causes = suspect(evaluation.onnx, evaluation.outputs, singles=evaluation.few[-1])
    return replace(verdict, suspicions=list(causes))


def _report_result(context: Context, findings: Findings, event_log: EventLog) -> None:
    first_step_at = context.trained.first_step_at
    event_log.write(
        EventKind.RESULT,
        metrics=findings.metrics,
        intervals=findings.standing.intervals,
        comparison=findings.standing.comparison.model_dump(mode="json"),
        copies=context.copies and context.copies.model_dump(mode="json"),
        threshold=findings.threshold,
        cross_validation=context.folds,
        variants=[one.summarise(context.order.threads) for one in findings.variants.results],
        recommendation=findings.variants.advice,
        verified=findings.verdict.verified,
        timings=event_log.settle(),
        first_step_at=first_step_at and first_step_at.isoformat(),
    )
    if context.order.dataset is not None:
        for leak in context.order.dataset.leaks:
            event_log.warning(LEAKING_COLUMNS, leak)
    if findings.warning is not None:
        event_log.warning(findings.warning.code, findings.warning.message)


def _announce(context: Context, findings: Findings, event_log: EventLog) -> None:
    missed = {"the exported model": findings.verdict.describe()} | {
        f"the variant {one.name}": "; ".join(one.misses) for one in findings.variants.results[1:]
    }
    texts = [f"{name} is unverified: {text}" for name, text in missed.items() if text]
    if not texts:
        return
    message = ". ".join(texts)
    if context.target.spec.export.require_verified:
        raise TrainingFailed(FailureCode.UNVERIFIED, message)
    event_log.warning("unverified", message)
