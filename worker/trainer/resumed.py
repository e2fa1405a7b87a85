"""The spec of a resumed run: as resolved when its checkpoint was written."""

from collections.abc import Mapping
from typing import Any

DEVICE_BOUND = ("precision", "compile", "memory_format")
"""Keys of `training` that are chosen for a device, and again when a run moves to another kind."""


CPU = "cpu"
"""The device name of every CPU."""


def is_same_device(made_on: Mapping[str, Any], *, here: Mapping[str, str]) -> bool:
    """Return whether a run resumes on the kind of device that its checkpoint was written on.

    Args:
        made_on: State of the checkpoint; old ones lack the processor's name.
        here: `device_name` and `cpu` of this host, `cpu` being the processor's name.
    """
    if made_on.get("device_name") != here["device_name"]:
        return False
    return here["device_name"] != CPU or made_on.get("cpu", here["cpu"]) == here["cpu"]


def follow_checkpoint(
    asked: dict[str, Any], resolved: dict[str, Any], *, is_same_device: bool
) -> dict[str, Any]:
    """Return the spec that a run resumes with.

    Values that were measured once, or had to change since (micro steps, a learning rate lowered
    after divergence), are kept, so the remaining steps equal those of an uninterrupted run.

    Args:
        asked: Spec as the user wrote it.
        resolved: Spec in the checkpoint.
        is_same_device: Whether the device is of the kind that the checkpoint was written on.
    """
    if is_same_device:
        return resolved
    mine = asked.get("training", {})
    theirs = {k: v for k, v in resolved["training"].items() if k not in DEVICE_BOUND}
    return {
        **resolved,
        "training": {**theirs, **{k: mine[k] for k in DEVICE_BOUND if k in mine}},
    }
