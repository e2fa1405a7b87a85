"""The loss and scores of the task `tabular-classification`."""

from functools import partial

from redkiln.tasks.tabular_classification import TabularClassificationSpec
from worker.export.scoring.classification import Classification
from worker.export.scoring.multi_label import MultiLabel
from worker.export.target import Scoring
from worker.tasks.tabular.opened import TableJob
from worker.tasks.tabular.task import IsBetter, TableTask
from worker.trainer.optim.label_losses import build_label_loss
from worker.trainer.optim.losses import Loss, build_classifier_loss, count_classes
from worker.trainer.scoring.evaluate import evaluate_classifier
from worker.trainer.scoring.labels import evaluate_labels
from worker.trainer.scoring.validation import Score
from worker.trainer.tables.batches import ResidentRows


def is_better(metrics: dict[str, float], best: dict[str, float], *, by_f1: bool) -> bool:
    """Return whether the loss on the validation split is smaller.

    Args:
        metrics: Metrics of the newest epoch.
        best: Metrics of the best epoch so far.
        by_f1: Whether a higher macro F1 counts first. With class weights the probabilities are
            wrong on purpose, and so is the loss.
    """
    gained = metrics["val/macro_f1"] - best["val/macro_f1"] if by_f1 else 0.0
    return gained > 0 or (gained == 0 and metrics["val/loss"] < best["val/loss"])


def _build_loss(spec: TabularClassificationSpec, job: TableJob, rows: ResidentRows) -> Loss:
    targets, classes = rows.targets("train"), job.table.index.classes
    if targets.ndim == 2:
        return build_label_loss(
            spec.training,
            classes=classes,
            counts=targets.sum(dim=0).long().tolist(),
            num=len(targets),
            device=rows.device,
        )
    return build_classifier_loss(
        spec.training,
        classes=classes,
        counts=count_classes(targets, num_classes=len(classes)),
        device=rows.device,
    )


def _build_score(job: TableJob, _loss: Loss) -> Score:
    return evaluate_classifier if job.table.labels is None else evaluate_labels


def _build_is_better(spec: TabularClassificationSpec) -> IsBetter:
    return partial(is_better, by_f1=spec.training.class_weights is not None)


def _build_scoring(job: TableJob) -> Scoring:
    classes = job.table.index.classes
    return Classification(classes) if job.table.labels is None else MultiLabel(classes)


TASK = TableTask(
    TabularClassificationSpec, _build_loss, _build_score, _build_is_better, _build_scoring
)
