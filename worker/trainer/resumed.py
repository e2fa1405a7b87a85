"""What a resumed run is made of: the spec as it was resolved when its checkpoint was made."""

from collections.abc import Mapping
from typing import Any

DEVICE_BOUND = ("precision", "compile", "memory_format")
"""Of `training`: chosen for a device, and chosen anew where a run goes on upon another one."""


CPU = "cpu"
"""The device name of them all."""


def is_same_device(made_on: Mapping[str, Any], *, here: Mapping[str, str]) -> bool:
    """Whether a run goes on upon the kind of device that its checkpoint was made on.

    Args:
        made_on: what the checkpoint says; the processor's name is missing from old ones.
        here: `device_name` and `cpu`, as the name of this processor.
    """
    if made_on.get("device_name") != here["device_name"]:
        return False
    return here["device_name"] != CPU or made_on.get("cpu", here["cpu"]) == here["cpu"]


def follow_checkpoint(
    asked: dict[str, Any], resolved: dict[str, Any], *, is_same_device: bool
) -> dict[str, Any]:
    """The spec that a run goes on with.

    What was measured once, or had to change since (micro steps, a rate lowered after a divergence),
    stays: the steps that follow are then those of a run that was never interrupted.

    Args:
        asked: as the job's owner wrote it.
        resolved: kept in the checkpoint.
        is_same_device: whether the device is of the kind that the checkpoint was made on.
    """
    if is_same_device:
        return resolved
    mine = asked.get("training", {})
    theirs = {k: v for k, v in resolved["training"].items() if k not in DEVICE_BOUND}
    return {
        **resolved,
        "training": {**theirs, **{k: mine[k] for k in DEVICE_BOUND if k in mine}},
    }
