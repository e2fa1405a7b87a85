"""Sample predictions of a text classifier."""

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import nn

from worker.trainer.inputs import as_parts
from worker.trainer.insight.preview import ShowSamples
from worker.trainer.insight.shown import Shown, spread_rows
from worker.trainer.scoring.evaluate import evaluating
from worker.trainer.text.batches import ResidentTexts
from worker.trainer.text.table import TextTable

MAX_CHARACTERS = 120


def build_text_preview(
    model: nn.Module,
    texts: ResidentTexts,
    table: TextTable,
    *,
    autocast: Callable[[], torch.autocast],
) -> ShowSamples:
    """What shows some validation texts; training ones where no validation split was asked for.

    Args:
        model: as it is trained; put into evaluation mode meanwhile.
        texts: of the job; the test split is left alone.
        table: holds what they say.
        autocast: entered for the forward pass.
    """
    split = texts.rows["validation"] if texts.num("validation") else texts.rows["train"]
    chosen = np.array(spread_rows(split.tolist()), dtype=np.int64)
    classes = table.index.classes

    @cache
    def read() -> list[str]:
        return [_shorten(text) for text in table.iter_some(chosen)]

    def show() -> list[Shown]:
        longest, is_padded = texts.shape_of(chosen)
        rows = torch.from_numpy(chosen).to(texts.home)
        inputs, labels = texts.get_batch(rows, longest=longest, is_padded=is_padded)
        with evaluating(model), autocast():
            logits = model(*as_parts(inputs))
        chances = logits.float().softmax(dim=1)
        confidence, predicted = (part.cpu().tolist() for part in chances.max(dim=1))
        return [
            Shown(
                truth=classes[true],
                predicted=classes[said],
                confidence=chance,
                is_right=true == said,
                text=text,
            )
            for true, said, chance, text in zip(
                labels.cpu().tolist(), predicted, confidence, read(), strict=True
            )
        ]

    return show


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_CHARACTERS else f"{line[: MAX_CHARACTERS - 1]}…"
