"""`quality`: how much time a training may take for a better model.

A quality stands for a few fields of a task. What a spec sets itself takes precedence, field by
field, and the spec with its defaults shows the values.
"""

from collections.abc import Mapping
from typing import Any, Literal

Quality = Literal["fast", "balanced", "best"]


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
