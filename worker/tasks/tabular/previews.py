"""Predictions of a tabular model on sample rows: some cells, the truth, and the prediction."""

from collections.abc import Callable

import torch
from torch import nn

from worker.tasks.tabular.original_row import open_rows
from worker.trainer.inputs import as_parts
from worker.trainer.insight.preview import ShowSamples
from worker.trainer.insight.shown import Shown, spread_rows
from worker.trainer.insight.shown_labels import judge_labels
from worker.trainer.scoring.evaluate import evaluating
from worker.trainer.tables.batches import ResidentRows
from worker.trainer.tables.table import Table
from worker.trainer.tables.target_scale import TargetScale

MAX_COLUMNS = 4
"""Most cells of a row to show: those of the first columns."""


def build_table_preview(
    model: nn.Module,
    rows: ResidentRows,
    table: Table,
    *,
    target: TargetScale | None,
    autocast: Callable[[], torch.autocast],
) -> ShowSamples:
    """Return a function that predicts some validation rows, or training ones without a split.

    Args:
        model: The model in training; put into evaluation mode during the call.
        rows: The job's rows; the test split is not used.
        table: The validated table.
        target: How a regression's targets are standardised; None for classes.
        autocast: Context for the forward pass.
    """
    split = rows.rows["validation"] if rows.num("validation") else rows.rows["train"]
    chosen = spread_rows(split.tolist())
    texts = open_rows(table, most_columns=MAX_COLUMNS)(chosen)

    def show() -> list[Shown]:
        inputs, wanted = rows.get_batch(torch.tensor(chosen, device=split.device))
        with evaluating(model), autocast():
            outputs = model(*as_parts(inputs))
        outputs = outputs.float().cpu()
        if table.labels is not None:
            return judge_labels(outputs, wanted, table.index.classes, texts=texts)
        if target is None:
            return _judge_classes(table, chosen, outputs, texts=texts)
        return _show_values(table, chosen, outputs.flatten(), target=target, texts=texts)

    return show


def _judge_classes(
    table: Table, chosen: list[int], logits: torch.Tensor, *, texts: list[str]
) -> list[Shown]:
    classes = table.index.classes
    confidence, predicted = (part.tolist() for part in logits.softmax(dim=1).max(dim=1))
    return [
        Shown(
            truth=classes[int(table.targets[row])],
            predicted=classes[prediction],
            confidence=probability,
            is_right=int(table.targets[row]) == prediction,
            text=text,
        )
        for row, prediction, probability, text in zip(
            chosen, predicted, confidence, texts, strict=True
        )
    ]


def _show_values(
    table: Table,
    chosen: list[int],
    outputs: torch.Tensor,
    *,
    target: TargetScale,
    texts: list[str],
) -> list[Shown]:
    return [
        Shown(
            truth=f"{float(table.targets[row]):.4g}",
            predicted=f"{value:.4g}",
            text=text,
        )
        for row, value, text in zip(chosen, target.restore(outputs).tolist(), texts, strict=True)
    ]
