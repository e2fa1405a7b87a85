"""How well a classifier does on a split."""

from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.nn import functional

from worker.trainer.images import Batch


def evaluate_classifier(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    autocast: Callable[[], torch.autocast],
    should_stop: Callable[[], bool],
) -> dict[str, float] | None:
    """Mean cross-entropy (never smoothed) and accuracy as `loss` and `accuracy`.

    Returns:
        None if `should_stop`, asked before each batch, said so.
    """
    was_training = model.training
    model.eval()
    loss_sum, num_right, num = None, None, 0
    try:
        with torch.inference_mode():
            for images, labels in batches:
                if should_stop():
                    return None
                with autocast():
                    logits = model(images)
                loss = functional.cross_entropy(logits.float(), labels, reduction="sum")
                right = (logits.argmax(dim=1) == labels).sum()
                # Sums stay on the device; reading them would wait for it at every batch.
                loss_sum = loss if loss_sum is None else loss_sum + loss
                num_right = right if num_right is None else num_right + right
                num += len(labels)
    finally:
        model.train(was_training)
    assert loss_sum is not None
    assert num_right is not None
    return {"loss": float(loss_sum) / num, "accuracy": int(num_right) / num}
