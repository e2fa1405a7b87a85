"""Files about the exported model: samples to compare with, the report, and the manifest."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from redkiln.advice.wording import as_options
from redkiln.predict.cpu import detect_cpu
from redkiln.views.comparison import CrossValidation
from redkiln.views.evaluation import FILE_NAME as EVALUATION
from redkiln.views.evaluation import PICTURE_NAME as MISTAKES
from redkiln.views.evaluation import EvaluationFile
from redkiln.views.job import Warned
from worker.export.baselines.compare import Standing
from worker.export.baselines.warning import find_warning
from worker.export.card import card
from worker.export.card.calibration_figure import draw_calibration
from worker.export.card.mistakes_section import PICTURE_NAME as WORST
from worker.export.card.mistakes_section import draw_mistakes, render_mistakes
from worker.export.card.page import render_page
from worker.export.context import Context
from worker.export.evaluate import Evaluation
from worker.export.evaluation_file import write_evaluation
from worker.export.manifest import build_manifest
from worker.export.onnx_file import describe_file
from worker.export.outputs import Outputs
from worker.export.parity import GateResult
from worker.export.samples import choose_saved
from worker.export.scoring.calibration import measure_calibration
from worker.export.scoring.classification import Classification
from worker.export.target import Scored
from worker.export.variants.advice import render_variants
from worker.export.variants.providers import ProviderResult, describe_providers
from worker.export.variants.run import PICTURE, Variants
from worker.export.variants.slimming import Slimming
from worker.jobdir import JobDir

CAPTIONS = {
    "curves.png": "Curves of the training",
    "confusion.png": "Confusion matrix of the test split",
    "precision.png": "Precision by recall at an overlap of 0.5, test split",
    "iou.png": "IoU of each class, test split",
    "predictions.png": "Predictions of the test split against the truth",
    "calibration.png": "Calibration: share of right answers by the highest probability",
    WORST: "The worst mistakes, each with the model's answer and the true one",
    PICTURE: "Metric of each variant against the time of a call",
}
"""Captions of the pictures in `report.html`, in their order."""


@dataclass(frozen=True)
class Findings:
    """What the export has measured.

    Attributes:
        evaluation: Outputs and metrics of both runtimes.
        verdict: Verdict on the float32 file.
        standing: The model next to its baselines.
        metrics: Final metrics by name, with their splits.
        seconds: Time spent in each phase.
        variants: Files in lower precision.
        slimming: Outcome of the clean-up of `model.onnx`; None if it was not asked for.
        providers: `model.onnx` on other execution providers than the CPU.
        folds: Scores of the folds, if the job was cross-validated.
        model_name: Name of the model in the spec.
    """

    evaluation: Evaluation
    verdict: GateResult
    standing: Standing
    metrics: dict[str, float]
    seconds: dict[str, float]
    variants: Variants
    slimming: Slimming | None = None
    providers: Sequence[ProviderResult] = ()
    folds: CrossValidation | None = None
    model_name: str | None = None

    @property
    def threshold(self) -> dict[str, Any] | None:
        """The decision threshold as JSON, if the task has one."""
        found = self.evaluation.threshold
        return None if found is None else found.model_dump(mode="json")

    @property
    def warning(self) -> Warned | None:
        """The job's warning that a baseline is as good as the model, if so."""
        return find_warning(
            self.standing.comparison,
            num_test=self.evaluation.num_test,
            is_error=self.standing.is_error,
            auc=self.metrics.get("test/auc"),
            threshold=self.evaluation.threshold,
            folds=self.folds,
            model=self.model_name,
        )


def write_parity(context: Context, evaluation: Evaluation, outputs: Outputs) -> None:
    """Write samples, their targets and the reference's outputs, for `redkiln verify`."""
    target, rows = context.target, evaluation.rows
    one = target.samples.get(rows[:1])
    saved = choose_saved(len(rows), bytes_each=sum(array.nbytes for array in one.values()))
    answers, found = target.exportable.answers, evaluation.outputs[saved]
    truth = evaluation.targets[saved]
    save_truth = None if answers is None else answers.save_truth
    raw = {} if target.companion is None else target.companion.save(rows[saved])
    arrays: dict[str, Any] = {
        **target.samples.get(rows[saved]),
        **raw,
        **({target.scoring.targets_name: truth} if save_truth is None else save_truth(truth)),
        **({target.exportable.output: found} if answers is None else answers.split(found)),
        "is_test": saved < evaluation.num_test,
    }
    np.savez_compressed(outputs.path("parity.npz"), **arrays)
    outputs.add("parity.npz")


def write_report(context: Context, findings: Findings, outputs: Outputs) -> None:
    """Write the model card, its pictures, and the evaluation by class."""
    scoring, test = context.target.scoring, findings.evaluation.test
    scoring.draw(*test, outputs.path(scoring.figure), title=context.order.job_name)
    outputs.add(scoring.figure)
    (context.target.write_evaluation or write_evaluation)(context.target, test, outputs)
    _draw_calibration(context, test, outputs)
    facts = card.CardFacts(
        **_describe_training(context),
        **_describe_model(context, findings, outputs),
        mistakes=write_mistakes(outputs),
    )
    text = card.render_card(facts)
    outputs.path("report.md").write_text(text)
    outputs.add("report.md")
    page = render_page(text, title=context.order.job_name, pictures=list_pictures(outputs))
    outputs.path("report.html").write_text(page)
    outputs.add("report.html")


def write_mistakes(outputs: Outputs) -> str:
    """Draw the worst mistakes, and return the card's section about them."""
    if EVALUATION not in outputs.names:
        return ""
    content = EvaluationFile.model_validate_json(outputs.path(EVALUATION).read_bytes())
    has_picture = draw_mistakes(content, outputs.path(MISTAKES), outputs.path(WORST))
    if has_picture:
        outputs.add(WORST)
    return render_mistakes(content, has_picture=has_picture)


def list_pictures(outputs: Outputs) -> dict[str, Path]:
    """Return the pictures of the job by their captions."""
    return {
        caption: outputs.path(name) for name, caption in CAPTIONS.items() if name in outputs.names
    }


def _draw_calibration(context: Context, test: Scored, outputs: Outputs) -> None:
    """Draw how well a classifier's probabilities match its right answers."""
    if not isinstance(context.target.scoring, Classification):
        return
    path = outputs.path("calibration.png")
    draw_calibration(measure_calibration(*test), path, title=context.order.job_name)
    outputs.add("calibration.png")


def _describe_training(context: Context) -> dict[str, Any]:
    """Return the facts of the card that the training has left."""
    order, trained, target = context.order, context.trained, context.target
    data = order.required_dataset
    return {
        "job_name": order.job_name,
        "job_id": order.job_id,
        "dataset": data.name,
        "dataset_notes": [as_options(one, dataset=data.name) for one in target.notes],
        "dataset_warnings": [as_options(one, dataset=data.name) for one in data.warnings],
        "dataset_leaks": [as_options(one, dataset=data.name) for one in data.leaks],
        "copies": context.copies,
        "fingerprint": data.fingerprint,
        "noun": target.samples.noun,
        "texts": target.texts,
        "output": target.scoring.describe_output(),
        "counts": trained.counts,
        "held_out_test": target.held_out_test,
        "spec": trained.spec,
        "num_parameters": trained.num_parameters,
        "best_epoch": trained.best_epoch,
        "best_step": trained.best_step,
        "finished_early": trained.finished_early,
        "steps": trained.steps,
        "planned_steps": trained.planned_steps,
        "steps_per_epoch": trained.steps_per_epoch,
        "epochs": -(-trained.steps // trained.steps_per_epoch),
        "cross_validation": trained.cross_validation,
        "environment": trained.environment,
        "first_steps": trained.first_steps,
        "advice": trained.advice,
        "efficiency": trained.efficiency,
        "estimated_seconds": trained.estimated_seconds,
    }


def _describe_model(context: Context, findings: Findings, outputs: Outputs) -> dict[str, Any]:
    """Return the facts of the card that the export has measured."""
    target, evaluation = context.target, findings.evaluation
    scoring, found = target.scoring, findings.variants
    answers = target.exportable.answers
    return {
        **(
            {}
            if answers is None
            else {
                "agreement": answers.agreement,
                "least_agreement": answers.least_agreement,
            }
        ),
        "headline": scoring.describe_headline(
            findings.metrics, compared=findings.standing.comparison.metric
        ),
        "results": scoring.describe_results(*evaluation.test, noun=target.samples.noun),
        "metrics": findings.metrics,
        "intervals": findings.standing.intervals,
        "comparison": findings.standing.comparison,
        "warning": findings.warning and findings.warning.message,
        "threshold": evaluation.threshold,
        "parity": evaluation.difference.as_json(),
        "gate": context.gate,
        "drop": (scoring.describe_drop(), evaluation.metric_drop),
        "framework": target.exportable.framework,
        "verified": findings.verdict.verified,
        "misses": [
            *findings.verdict.misses,
            *(f"possible cause: {text}" for text in findings.verdict.suspicions),
        ],
        "model_file": describe_file(outputs.path("model.onnx")),
        "slimming": findings.slimming and findings.slimming.describe(),
        "providers": describe_providers(findings.providers),
        "seconds": findings.seconds,
        "variants": render_variants(found.results, advice=found.advice, picture=PICTURE)
        if found.results
        else "",
    }


def write_manifest(context: Context, findings: Findings, job_dir: JobDir, outputs: Outputs) -> None:
    """Write the manifest, which lists all other files, and before it the log."""
    # A snapshot: later output of this process goes into the log, not into the artifact.
    job_dir.log_path.touch()
    shutil.copyfile(job_dir.log_path, outputs.path("trainer.log"))
    outputs.add("trainer.log")
    manifest = build_manifest(
        outputs.folder,
        outputs.names,
        **_list_origin(context),
        **_list_results(context, findings, outputs),
    )
    outputs.path("manifest.json").write_text(
        json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    )
    outputs.add("manifest.json")


def _list_origin(context: Context) -> dict[str, Any]:
    """Return the manifest's facts about the job, its data, and its training."""
    order, trained, target = context.order, context.trained, context.target
    source = {} if context.source_job is None else {"source": context.source_job}
    return {
        "job": {
            "id": order.job_id,
            "name": order.job_name,
            "attempt_id": order.attempt_id,
            **source,
        },
        "task": target.spec.task,
        "dataset": {
            "name": order.required_dataset.name,
            "fingerprint": order.required_dataset.fingerprint,
            "sha256": order.required_dataset.sha256,
            "counts": trained.counts,
            "held_out_test": target.held_out_test,
            "leaks": [as_options(leak) for leak in order.required_dataset.leaks],
        },
        "best": {"step": trained.best_step, "epoch": trained.best_epoch},
        "training": {
            "steps": trained.steps,
            "planned_steps": trained.planned_steps,
            "steps_per_epoch": trained.steps_per_epoch,
            "finished_early": trained.finished_early,
        },
        "spec": trained.spec,
        "environment": trained.environment,
        "efficiency": trained.efficiency and trained.efficiency.model_dump(mode="json"),
        "cross_validation": context.folds,
    }


def _list_results(context: Context, findings: Findings, outputs: Outputs) -> dict[str, Any]:
    """Return the manifest's facts about the exported model."""
    target, evaluation, verdict = context.target, findings.evaluation, findings.verdict
    return {
        "model": {
            **describe_file(outputs.path("model.onnx")),
            "num_parameters": context.trained.num_parameters,
            **({} if findings.slimming is None else {"slim": findings.slimming.as_json()}),
        },
        **target.scoring.describe(),
        "preprocessing": target.preprocessing,
        "verification": {
            "verified": verdict.verified,
            "compared_with": target.exportable.framework,
            "misses": verdict.misses,
            "suspicions": verdict.suspicions,
            "cpu": detect_cpu(),
            "gate": context.gate,
            "providers": [one.model_dump(mode="json") for one in findings.providers],
            **evaluation.difference.as_json(),
        },
        "variants": [one.model_dump(mode="json") for one in findings.variants.results],
        "recommendation": findings.variants.advice,
        "metrics": findings.metrics,
        "intervals": findings.standing.intervals,
        "comparison": findings.standing.comparison.model_dump(mode="json"),
        "threshold": findings.threshold,
        "seconds": findings.seconds,
    }
