"""Resuming a run: its checkpoint, and its spec as resolved when the checkpoint was written."""

from collections.abc import Mapping
from typing import Any

import torch

from worker.checkpoints.checkpoint import Checkpoint, CheckpointStore, Manifest
from worker.jobdir import Order
from worker.process.event_log import EventLog

DEVICE_BOUND = ("precision", "compile", "memory_format")
"""Keys of `training` that are chosen for a device, and again when a run moves to another kind."""

NOTHING_TO_FINISH = (
    "there is no readable checkpoint to export; retry the job to train it from the beginning"
)

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
    # Weights and optimiser are torch's, so a run may change its engine at any checkpoint.
    engine = asked.get("resources", {}).get("engine", "auto")
    is_same_engine = "resources" not in resolved or (engine == "tinygrad") == (
        resolved["resources"].get("engine") == "tinygrad"
    )
    if is_same_device and is_same_engine:
        return resolved
    if not is_same_engine:
        resolved = {**resolved, "resources": {**resolved["resources"], "engine": engine}}
    mine = asked.get("training", {})
    theirs = {k: v for k, v in resolved["training"].items() if k not in DEVICE_BOUND}
    return {
        **resolved,
        "training": {**theirs, **{k: mine[k] for k in DEVICE_BOUND if k in mine}},
    }


def find_checkpoint(order: Order, store: CheckpointStore, event_log: EventLog) -> Checkpoint | None:
    """Return the checkpoint to resume from, after removing those of later steps."""
    if order.resume is None:
        store.drop_after(-1)
        return None
    checkpoint, problems = store.load_newest(order.resume)
    for problem in problems:
        event_log.warning("checkpoint_broken", f"skipped an unusable checkpoint: {problem}")
    if checkpoint is None:
        message = "no checkpoint could be read; training starts again from the first step"
        event_log.warning("restarted", message)
        event_log.undo_after(0)
        store.drop_after(-1)
        return None
    if problems:
        event_log.undo_after(checkpoint.manifest.step)
    store.drop_after(checkpoint.manifest.step)
    return checkpoint


def report_resumed(order: Order, manifest: Manifest, event_log: EventLog) -> None:
    """Add the earlier attempts' time, and say from where the run resumes and what differs."""
    for phase, seconds in manifest.state["seconds"].items():
        event_log.seconds[phase] = event_log.seconds.get(phase, 0.0) + seconds
    event_log.message(f"resumed from step {manifest.step}")
    made_on = (manifest.torch_version, manifest.threads, torch.device(manifest.device).type)
    here = (torch.__version__, torch.get_num_threads(), torch.device(order.device).type)
    if made_on != here:
        event_log.message(
            "the checkpoint was written with torch {}, {} threads, on {}; this worker has torch {},"
            " {} threads, {}: the loss curve may differ by rounding".format(*made_on, *here)
        )
