"""Writes a running attempt's metrics to a file that TensorBoard shows while it grows.

The agent writes it from the events that it receives anyway, so it costs the trainer nothing. A
resumed attempt's file begins with the points of its checkpoint. If an earlier attempt's file is in
the same folder, TensorBoard shows both as one run, so the new file begins by removing that
attempt's later steps instead.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog

from redkiln.events import Event, EventKind
from worker.tfevents.event_file import EventFile

log = structlog.get_logger(__name__)

NAME = "events.out.tfevents"
HISTORY = "history/"
"""Series in a checkpoint: `history/<name>` -> (2, N), steps over values."""


class TensorBoard:
    """Writes one attempt's file, and a copy of it if a folder for all jobs is set.

    It stops for good when a disk is full: curves must not cost a training run.

    Args:
        paths: Paths of the files to write.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = list(paths)
        self._files: list[EventFile] | None = None
        self._whole: list[EventFile] = []
        self._after_step = -1
        self._last_step = 0
        self._is_broken = False

    def resume(
        self, history: Mapping[str, Sequence[tuple[int, float]]], *, step: int, at: datetime
    ) -> None:
        """Continue after a step; call it before `on_event`, and only if the attempt resumes.

        Args:
            history: Points of earlier attempts. They are written with one time, because their times
                are not stored, and only to a file without an earlier attempt's file next to it.
            step: Step of the checkpoint.
            at: Time at which the checkpoint was made.
        """
        self._after_step = step
        for name, points in history.items():
            self._add(name, points, at=at, is_known=True)

    def on_event(self, event: Event) -> None:
        """Write the metrics of one event."""
        if event.kind is EventKind.METRICS:
            if (step := event.data.get("undone_after")) is not None:
                self._after_step = min(self._after_step, step)
                self._write(lambda file: file.undo_after(step, wall_time=event.at.timestamp()))
            for name, points in event.data.get("points", {}).items():
                self._add(name, points, at=event.at)
        elif event.kind is EventKind.RESULT:
            for name, value in event.data.get("metrics", {}).items():
                if name.startswith("test/"):
                    self._add(name, [(self._last_step, value)], at=event.at)

    def close(self) -> None:
        """Close the files; later events are ignored."""
        for file in self._files or ():
            file.close()
        self._files = None
        self._is_broken = True

    def _add(
        self,
        name: str,
        points: Sequence[tuple[int, float]],
        *,
        at: datetime,
        is_known: bool = False,
    ) -> None:
        found = [(int(step), float("nan") if v is None else float(v)) for step, v in points]
        if self._is_broken or not found:
            return
        self._last_step = max(self._last_step, found[-1][0])
        if not is_known:  # a script may restart from a step before its checkpoint
            self._after_step = min(self._after_step, found[0][0] - 1)
        wall_time = at.timestamp()
        self._write(
            lambda file: file.add(name, found, wall_time=wall_time),
            wall_time=wall_time,
            is_known=is_known,
        )

    def _write(
        self,
        write: Callable[[EventFile], None],
        *,
        wall_time: float | None = None,
        is_known: bool = False,
    ) -> None:
        """Write to each file; create the files first if a time is given and they do not exist."""
        try:
            if self._files is None and wall_time is not None:
                self._open(wall_time)
            for file in self._whole if is_known else self._files or ():
                write(file)
        except OSError as error:
            log.warning("stopped writing events for TensorBoard", error=str(error))
            self.close()

    def _open(self, wall_time: float) -> None:
        self._files = []
        for path in self._paths:
            is_later = any(other.name < path.name for other in path.parent.glob(f"{NAME}*"))
            file = EventFile(path, wall_time=wall_time)
            self._files.append(file)
            if is_later:
                file.undo_after(self._after_step, wall_time=wall_time)
            else:
                self._whole.append(file)


def load_history(checkpoint: Path) -> dict[str, list[tuple[int, float]]]:
    """Load the series in a checkpoint's file; empty if it has none or cannot be read."""
    # Imported here: only resumed attempts need numpy.
    from safetensors import SafetensorError, safe_open

    found: dict[str, list[tuple[int, float]]] = {}
    try:
        with safe_open(checkpoint, framework="numpy") as tensors:
            for key in tensors.keys():  # noqa: SIM118  # it is not a mapping
                if key.startswith(HISTORY):
                    steps, values = tensors.get_tensor(key).tolist()
                    found[key.removeprefix(HISTORY)] = _points(steps, values)
    except (OSError, SafetensorError, ValueError) as error:
        log.warning("cannot read the checkpoint's history", path=checkpoint.name, error=str(error))
    return found


def _points(steps: list[float], values: list[float]) -> list[tuple[int, float]]:
    pairs = zip(steps, values, strict=True)
    return [(int(step), value) for step, value in pairs if math.isfinite(step)]


def name_folder(root: Path, *, job_id: str, job_name: str) -> Path:
    """Return a job's folder below the folder for all jobs; TensorBoard shows it as one run."""
    plain = "".join(c if c.isalnum() or c in "._-" else "-" for c in job_name).strip(".-")
    return root / f"{plain or 'job'}-{job_id.removeprefix('job_')}"


def describe_manifest_time(manifest: Mapping[str, Any]) -> datetime | None:
    """Return when a checkpoint was made; None if its manifest does not say."""
    try:
        return datetime.fromisoformat(str(manifest["created_at"]))
    except (KeyError, ValueError):
        return None
