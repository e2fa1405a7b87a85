"""Predictions of a text classifier on sample texts."""

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import nn

from worker.trainer.inputs import as_parts
from worker.trainer.insight.preview import ShowSamples
from worker.trainer.insight.shortened import shorten
from worker.trainer.insight.shown import Shown, spread_rows
from worker.trainer.insight.shown_labels import judge_labels
from worker.trainer.scoring.evaluate import evaluating
from worker.trainer.text.batches import ResidentTexts
from worker.trainer.text.table import TextTable

MOST_CHARACTERS = 400
"""Characters of a text that are shown; of a longer one its beginning and its end."""


def build_text_preview(
    model: nn.Module,
    texts: ResidentTexts,
    table: TextTable,
    *,
    autocast: Callable[[], torch.autocast],
) -> ShowSamples:
    """Return a function that predicts some validation texts, or training ones without a split.

    Args:
        model: The model in training; put into evaluation mode during the call.
        texts: The job's texts as tokens; the test split is not used.
        table: The texts themselves.
        autocast: Context for the forward pass.
    """
    split = texts.rows["validation"] if texts.num("validation") else texts.rows["train"]
    chosen = np.array(spread_rows(split.tolist()), dtype=np.int64)
    classes = table.index.classes

    @cache
    def read() -> list[str]:
        return [shorten(text, MOST_CHARACTERS) for text in table.iter_some(chosen)]

    def show() -> list[Shown]:
        longest, is_padded = texts.shape_of(chosen)
        rows = torch.from_numpy(chosen).to(texts.home)
        inputs, labels = texts.get_batch(rows, longest=longest, is_padded=is_padded)
        with evaluating(model), autocast():
            logits = model(*as_parts(inputs))
        if table.has_labels:
            return judge_labels(logits, labels, classes, texts=read())
        probabilities = logits.float().softmax(dim=1)
        confidence, predicted = (part.cpu().tolist() for part in probabilities.max(dim=1))
        return [
            Shown(
                truth=classes[true],
                predicted=classes[prediction],
                confidence=probability,
                is_right=true == prediction,
                text=text,
            )
            for true, prediction, probability, text in zip(
                labels.cpu().tolist(), predicted, confidence, read(), strict=True
            )
        ]

    return show
