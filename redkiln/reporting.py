"""`redkiln.log`: how a script tells the job that runs it of its metrics.

    import redkiln
    redkiln.log(step=step, steps=1000, loss=loss.item())

Outside a job it does nothing. This file needs the standard library alone, so that it may also be
copied beside a script.

What is said goes as lines of JSON into the file that `REDKILN_EVENTS` names, each in one write.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

VARIABLE = "REDKILN_EVENTS"
"""Names the file; set for every script of a job."""
MAX_LINE_BYTES = 65_536


def log(
    metrics: Mapping[str, Any] | None = None,
    /,
    *,
    step: int | None = None,
    steps: int | None = None,
    epoch: int | None = None,
    epochs: int | None = None,
    **values: Any,
) -> None:
    """Tell the job of metrics, and how far the script is.

    A number that is not finite is left out and counted in the job's log. Of several processes, as
    torchrun starts them, only the first is heard.

    Args:
        metrics: by names that are no Python identifiers: `{"val/loss": 0.3}`.
        step: optimiser updates made; the last one said if it is left out.
        steps: of all, where it is known: the job then shows progress and the time left.
        epoch: passes over the data begun, from 1.
        epochs: of all.
        values: further metrics; whatever `float()` takes, a tensor of one element too.

    Raises:
        TypeError: a value is no number.
    """
    path = os.environ.get(VARIABLE)
    if not path or os.environ.get("RANK", "0") != "0":
        return
    numbers = {name: float(value) for name, value in {**(metrics or {}), **values}.items()}
    places = {"step": step, "steps": steps, "epoch": epoch, "epochs": epochs}
    said: dict[str, Any] = {name: int(value) for name, value in places.items() if value is not None}
    line = json.dumps({**said, "metrics": numbers}, separators=(",", ":")).encode() + b"\n"
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"too many metrics at once: {len(numbers)}")
    # One write, appended: lines of several processes do not mix.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def is_resumed() -> bool:
    """Whether `REDKILN_CHECKPOINTS` holds what an earlier run of this job left there."""
    return os.environ.get("REDKILN_RESUME") == "1"
