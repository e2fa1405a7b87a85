"""The default length of a training: by `quality`, and by the number of samples.

A quality stands for a few fields of a task. What a spec sets itself takes precedence, field by
field, and the spec with its defaults shows the values.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal

Quality = Literal["fast", "balanced", "best"]

ENOUGH_SAMPLES = 400
"""Training samples from which the default epochs of images and texts are updates enough."""
MOST_TIMES = 10
"""Largest factor of the default epochs: each epoch also costs a validation and a checkpoint."""


def with_quality(
    spec: Any, *, epochs: Mapping[str, int], training: Mapping[str, Mapping[str, Any]] | None = None
) -> Any:
    """Return a spec as written, with the training fields that its quality stands for.

    Args:
        spec: The spec, before it is validated.
        epochs: Passes over the training split, by quality; they do not apply where `steps` is set.
        training: Further training fields, by quality.
    """
    if not isinstance(spec, dict):
        return spec
    quality, given = spec.get("quality"), spec.get("training", {})
    if not isinstance(quality, str) or quality not in epochs or not isinstance(given, dict):
        return spec
    chosen = dict((training or {}).get(quality, {}))
    if given.get("steps") is None:
        chosen["epochs"] = epochs[quality]
    return {**spec, "training": {**chosen, **given}}


def lengthen(epochs: int, *, num_train: int) -> int:
    """Return how many epochs a small training split needs.

    Small splits train in batches of 8. They get as many updates as a split of `ENOUGH_SAMPLES`
    samples, so they never take more steps than it would.

    Args:
        epochs: Default epochs of the task, the model and the quality.
        num_train: Samples in the training split, at least 1.
    """
    factor = min(MOST_TIMES, ENOUGH_SAMPLES / num_train)
    return math.ceil(epochs * max(1.0, factor))
