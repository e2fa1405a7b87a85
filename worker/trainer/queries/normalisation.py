"""The normalisation of pixels that the published weights of a detector were trained with.

Each type has its own whatever its weights, so that training does not change when weights come.
"""

from collections.abc import Mapping
from typing import Any

from worker.trainer.images.decode.facts import DecodedFacts

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Mean and standard deviation of red, green and blue."""
PLAIN = ((0.0,), (1.0,))


def replace_normalisation(facts: DecodedFacts, config: Mapping[str, Any]) -> DecodedFacts:
    """Return facts with the mean and deviation that a configuration's type expects.

    Source: the library's image processors. Backbones that were trained without labels (DINO) use
    those of ImageNet, the others pixels from 0 to 1. A grey image has the mean of the colours.
    """
    backbone = str((config.get("backbone_config") or {}).get("model_type", ""))
    mean, std = IMAGENET if "dino" in backbone else PLAIN
    num = len(facts.mean)
    return facts.model_copy(update={"mean": _spread(mean, num), "std": _spread(std, num)})


def _spread(values: tuple[float, ...], num: int) -> list[float]:
    """Return a value for each channel."""
    return list(values) if len(values) == num else [sum(values) / len(values)] * num
