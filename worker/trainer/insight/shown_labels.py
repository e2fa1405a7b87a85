"""Samples with several labels in a preview.

Shapes: B samples, K classes.
"""

from collections.abc import Sequence

import torch

from redkiln.predict.label_metrics import USUAL
from worker.trainer.insight.shown import Shown

NOTHING = "no label"


def judge_labels(
    logits: torch.Tensor,
    targets: torch.Tensor,
    classes: Sequence[str],
    *,
    texts: Sequence[str] | None = None,
) -> list[Shown]:
    """Return the true and the predicted labels of some samples; the latter have at least 50 %.

    Args:
        logits: (B, K) outputs of the network.
        targets: (B, K) 1 for each label of a sample, else 0.
        classes: (K,) names.
        texts: (B,) the samples in a few words.
    """
    found = (logits.float().sigmoid() >= USUAL).cpu().tolist()
    wanted = (targets > 0).cpu().tolist()
    return [
        Shown(
            truth=_join(classes, true),
            predicted=_join(classes, predicted),
            is_right=true == predicted,
            text=None if texts is None else texts[place],
        )
        for place, (true, predicted) in enumerate(zip(wanted, found, strict=True))
    ]


def _join(classes: Sequence[str], is_label: Sequence[bool]) -> str:
    names = [name for name, is_in in zip(classes, is_label, strict=True) if is_in]
    return ", ".join(names) or NOTHING
