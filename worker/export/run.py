"""From `trained.json` to the job's artifacts: export, compare, score, and tell about it.

model.onnx  manifest.json  parity.npz  metrics.csv  curves.png  confusion.png  report.md
checkpoint.safetensors  trainer.log
"""

import json
import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray

from redkiln.events import EventKind
from redkiln.failure import FailureCode
from redkiln.job import Phase, Progress
from redkiln.tasks import parse_spec
from redkiln.tasks.image_classification import ImageClassificationSpec
from worker.export import card, figures
from worker.export.confusion import confusion_matrix, score_classes, worst_confusions
from worker.export.curve_file import write_metrics
from worker.export.evaluate import Evaluation, evaluate_both
from worker.export.exportable import Exportable, make_exportable
from worker.export.manifest import build_manifest, preprocessing_of, to_metadata
from worker.export.onnx_file import describe_file, write_onnx
from worker.export.outputs import Outputs
from worker.export.parity import Verdict, judge
from worker.export.samples import choose_samples, choose_saved
from worker.jobdir import JobDir, Order
from worker.trainer.boundary import run_guarded
from worker.trainer.checkpoint import CheckpointStore
from worker.trainer.dataset import LocatedDataset, decode_dataset, locate_dataset, pixel_format_of
from worker.trainer.decode import DecodedImages
from worker.trainer.failed import TrainingFailed
from worker.trainer.history import History
from worker.trainer.images import split_rows
from worker.trainer.models import architecture_of, build_model
from worker.trainer.report import Report
from worker.trainer.trained import Trained

NUM_CONFUSIONS = 5


@dataclass(frozen=True)
class Context:
    """What every part of an export looks at.

    Attributes:
        labels: (N,) class of each decoded row.
        history: of the whole training.
        weights: of the best checkpoint, by the network's own names.
    """

    order: Order
    trained: Trained
    spec: ImageClassificationSpec
    located: LocatedDataset
    decoded: DecodedImages
    labels: NDArray[np.int64]
    history: History
    weights: dict[str, torch.Tensor]
    exportable: Exportable
    preprocessing: dict[str, Any]

    @property
    def classes(self) -> list[str]:
        """Names, by label."""
        return self.located.index.classes


def export_job(job_dir: JobDir) -> int:
    """Export the trained job of a directory; whatever happens is said in its events.

    Returns:
        The exit status (worker.jobdir).
    """
    order = job_dir.load_order()
    return run_guarded(
        job_dir, order, device="cpu", body=lambda report: _export(job_dir, order, report)
    )


def _export(job_dir: JobDir, order: Order, report: Report) -> None:
    report.enter(Phase.EXPORTING)
    torch.set_num_threads(order.threads)
    figures.use_quiet_backend(Path(order.cache_dir))
    context = _load(job_dir, order, report)
    report.seconds.update(context.trained.seconds)
    outputs = Outputs(job_dir)
    _write_training_files(context, outputs)
    metadata = to_metadata(
        job_id=order.job_id,
        task=context.spec.task,
        classes=context.classes,
        preprocessing=context.preprocessing,
    )
    model_path = outputs.path("model.onnx")
    write_onnx(context.exportable, model_path, opset=context.spec.export.opset, metadata=metadata)
    report.enter(Phase.VERIFYING)
    evaluation = _evaluate(context, model_path, report)
    drop = evaluation.metrics["accuracy"] - evaluation.metrics["accuracy_onnx"]
    verdict = judge(context.spec.export, difference=evaluation.difference, metric_drop=drop)
    outputs.add("model.onnx", verified=verdict.verified)
    _write_parity(evaluation, outputs)
    metrics = {f"test/{name}": value for name, value in evaluation.metrics.items()}
    metrics |= context.trained.metrics
    seconds = {name: round(value, 3) for name, value in report.settle().items()}
    _write_report(context, evaluation, verdict, metrics, seconds, outputs)
    _write_manifest(context, evaluation, verdict, metrics, seconds, job_dir, outputs)
    first_step_at = context.trained.first_step_at
    report.write(
        EventKind.RESULT,
        metrics=metrics,
        verified=verdict.verified,
        timings=report.settle(),
        first_step_at=first_step_at and first_step_at.isoformat(),
    )
    _announce(context, verdict, report)


def _load(job_dir: JobDir, order: Order, report: Report) -> Context:
    trained = Trained.model_validate_json(job_dir.trained_path.read_bytes())
    spec = parse_spec(trained.spec)
    assert isinstance(spec, ImageClassificationSpec)
    located = locate_dataset(order.required_dataset, cache_dir=Path(order.cache_dir))
    decoded = decode_dataset(located, pixel_format_of(spec.model.options), report=report)
    store = CheckpointStore(job_dir.checkpoints_dir)
    best, last = store.load(trained.best), store.load(trained.last)
    network = build_model(spec.model, num_classes=len(located.index.classes))
    network.load_state_dict(best.weights)
    exportable = make_exportable(
        network,
        mean=decoded.facts.mean,
        std=decoded.facts.std,
        image_size=decoded.images.shape[1],
        architecture=architecture_of(spec.model, num_classes=len(located.index.classes)),
    )
    samples = located.index.splits["train"] + located.index.splits["test"]
    return Context(
        order=order,
        trained=trained,
        spec=spec,
        located=located,
        decoded=decoded,
        labels=np.array([sample.label for sample in samples], dtype=np.int64),
        history=History.from_tensors(last.tensors_of("history")),
        weights=best.weights,
        exportable=exportable,
        preprocessing=preprocessing_of(spec.model.options, decoded.facts),
    )


def _write_training_files(context: Context, outputs: Outputs) -> None:
    """What is worth keeping even if the export fails: weights, metrics and their curves."""
    trained = context.trained
    description = {
        "model": context.spec.model.model_dump_json(),
        "classes": json.dumps(context.classes),
        "preprocessing": json.dumps(context.preprocessing),
    }
    safetensors.torch.save_file(
        context.weights, outputs.path("checkpoint.safetensors"), metadata=description
    )
    outputs.add("checkpoint.safetensors")
    write_metrics(
        context.history,
        outputs.path("metrics.csv"),
        training=context.spec.training,
        steps=trained.planned_steps,
        steps_per_epoch=trained.steps_per_epoch,
    )
    outputs.add("metrics.csv")
    figures.draw_curves(
        context.history,
        outputs.path("curves.png"),
        title=f"{context.order.job_name}: {context.spec.model.name}",
        best_step=trained.best_step,
        steps_per_epoch=trained.steps_per_epoch,
    )
    outputs.add("curves.png")


def _evaluate(context: Context, model_path: Path, report: Report) -> Evaluation:
    trained = context.trained
    fraction = context.spec.training.validation_fraction
    rows = split_rows(context.located.index, validation_fraction=fraction)
    samples = choose_samples(test=rows["test"], others=rows["validation"] + rows["train"])

    epochs = math.ceil(trained.steps / trained.steps_per_epoch)
    done = Progress(
        epoch=epochs,
        epochs=epochs,
        step=trained.steps,
        steps=trained.steps,
        fraction=1.0,
        metrics=context.history.newest(),
    )

    def say_alive() -> None:
        if report.is_progress_due():
            report.progress(done)

    return evaluate_both(
        context.exportable,
        model_path,
        pixels=context.decoded.images,
        labels=context.labels,
        samples=samples,
        threads=context.order.threads,
        on_batch=say_alive,
    )


def _write_parity(evaluation: Evaluation, outputs: Outputs) -> None:
    bytes_each = evaluation.pixels[0].nbytes
    saved = choose_saved(len(evaluation.pixels), bytes_each=bytes_each)
    np.savez_compressed(
        outputs.path("parity.npz"),
        images=evaluation.pixels[saved],
        labels=evaluation.labels[saved],
        logits=evaluation.torch_logits[saved],
        is_test=saved < evaluation.num_test,
    )
    outputs.add("parity.npz")


def _write_report(
    context: Context,
    evaluation: Evaluation,
    verdict: Verdict,
    metrics: dict[str, float],
    seconds: dict[str, float],
    outputs: Outputs,
) -> None:
    order, trained, index = context.order, context.trained, context.located.index
    matrix = confusion_matrix(
        evaluation.labels[: evaluation.num_test],
        evaluation.predicted,
        num_classes=len(context.classes),
    )
    accuracy = metrics["test/accuracy"]
    figures.draw_confusion(
        matrix,
        context.classes,
        outputs.path("confusion.png"),
        title=f"{order.job_name}: test accuracy {accuracy:.1%}",
    )
    outputs.add("confusion.png")
    facts = card.CardFacts(
        job_name=order.job_name,
        job_id=order.job_id,
        dataset=order.required_dataset.name,
        dataset_notes=index.notes,
        fingerprint=order.required_dataset.fingerprint,
        classes=context.classes,
        counts=trained.counts,
        held_out_test=index.held_out_test,
        spec=trained.spec,
        num_parameters=trained.num_parameters,
        best_epoch=trained.best_epoch,
        best_step=trained.best_step,
        steps=trained.steps,
        epochs=-(-trained.steps // trained.steps_per_epoch),
        metrics=metrics,
        parity=evaluation.difference.as_json(),
        gate=_gate(context),
        verified=verdict.verified,
        misses=verdict.misses,
        model_file=describe_file(outputs.path("model.onnx")),
        scores=score_classes(matrix, context.classes),
        confusions=worst_confusions(matrix, context.classes, limit=NUM_CONFUSIONS),
        preprocessing=context.preprocessing,
        environment=trained.environment,
        first_steps=trained.first_steps,
        advice=trained.advice,
        seconds=seconds,
    )
    outputs.path("report.md").write_text(card.render_card(facts))
    outputs.add("report.md")


def _write_manifest(
    context: Context,
    evaluation: Evaluation,
    verdict: Verdict,
    metrics: dict[str, float],
    seconds: dict[str, float],
    job_dir: JobDir,
    outputs: Outputs,
) -> None:
    order, trained = context.order, context.trained
    # A snapshot: what this process still writes goes into the log, not into the artifact.
    job_dir.log_path.touch()
    shutil.copyfile(job_dir.log_path, outputs.path("trainer.log"))
    outputs.add("trainer.log")
    manifest = build_manifest(
        outputs.folder,
        outputs.names,
        job={"id": order.job_id, "name": order.job_name, "attempt_id": order.attempt_id},
        task=context.spec.task,
        model={
            **describe_file(outputs.path("model.onnx")),
            "num_parameters": trained.num_parameters,
        },
        classes=context.classes,
        preprocessing=context.preprocessing,
        verification={
            "verified": verdict.verified,
            "misses": verdict.misses,
            "gate": _gate(context),
            **evaluation.difference.as_json(),
        },
        metrics=metrics,
        dataset={
            "name": order.required_dataset.name,
            "fingerprint": order.required_dataset.fingerprint,
            "counts": trained.counts,
            "held_out_test": context.located.index.held_out_test,
        },
        best={"step": trained.best_step, "epoch": trained.best_epoch},
        spec=trained.spec,
        environment=trained.environment,
        seconds=seconds,
    )
    outputs.path("manifest.json").write_text(
        json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    )
    outputs.add("manifest.json")


def _announce(context: Context, verdict: Verdict, report: Report) -> None:
    if verdict.verified:
        return
    message = "the exported model is unverified: " + "; ".join(verdict.misses)
    if context.spec.export.require_verified:
        raise TrainingFailed(FailureCode.UNVERIFIED, message)
    report.warning("unverified", message)


def _gate(context: Context) -> dict[str, float]:
    gate = context.spec.export
    return {"tolerance": gate.tolerance, "max_metric_drop": gate.max_metric_drop}
