"""`redkiln.log`: how a script reports metrics to the job that runs it.

    import redkiln
    redkiln.log(step=step, steps=1000, loss=loss.item())

Outside a job it does nothing. This file only needs the standard library, so that it can also be
copied next to a script.

Each call appends one line of JSON, in one write, to the file named by `REDKILN_EVENTS`.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

VARIABLE = "REDKILN_EVENTS"
"""Variable with the path of the file; set for every script of a job."""
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
    """Report metrics to the job, and how far the script is.

    Numbers that are not finite are left out and counted in the job's log. If there are several
    processes, as started by torchrun, only the first one reports.

    Args:
        metrics: Metrics whose names are not Python identifiers: `{"val/loss": 0.3}`.
        step: Finished optimiser updates; the last reported step if left out. A script that never
            reports a step gets curves over its epochs, or over the number of the call.
        steps: Planned optimiser updates, if known; the job then shows progress and time left.
        epoch: Current pass over the data, from 1.
        epochs: Planned passes over the data.
        values: Further metrics: anything that `float()` accepts, also a tensor of one element.

    Raises:
        TypeError: A value is not a number.
        ValueError: There are too many metrics for one line.
    """
    path = os.environ.get(VARIABLE)
    if not path or os.environ.get("RANK", "0") != "0":
        return
    numbers = {name: float(value) for name, value in {**(metrics or {}), **values}.items()}
    places = {"step": step, "steps": steps, "epoch": epoch, "epochs": epochs}
    progress: dict[str, Any] = {
        name: int(value) for name, value in places.items() if value is not None
    }
    line = json.dumps({**progress, "metrics": numbers}, separators=(",", ":")).encode() + b"\n"
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"too many metrics in one call ({len(numbers)}); log fewer at a time")
    # Append in one write, so that lines of several processes do not mix.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def is_resumed() -> bool:
    """Return whether `REDKILN_CHECKPOINTS` holds files of an earlier attempt of this job."""
    return os.environ.get("REDKILN_RESUME") == "1"
