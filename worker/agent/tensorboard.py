"""A running attempt's metrics as a file that TensorBoard shows while it grows.

It is written here, from the events that pass by anyway, so that it costs the trainer nothing. A
resumed attempt's file begins with the points of the checkpoint that it goes on from; beside that of
an earlier attempt it takes back what that one told of later steps, for TensorBoard shows them as
one.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog

from redkiln.events import Event, EventKind
from worker.agent.tfevents import EventFile

log = structlog.get_logger(__name__)

NAME = "events.out.tfevents"
HISTORY = "history/"
"""Series in a checkpoint: `history/<name>` -> (2, N), steps over values."""


class TensorBoard:
    """Writes one attempt's file, and a copy of it where a folder for all jobs is set.

    It gives up, once and for all, when a disk is full: curves must not cost a training.

    Args:
        paths: of the files.
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
        """Go on behind a step: before anything else is told, and not if the attempt begins anew.

        Args:
            history: what earlier attempts made. It is told as one moment, as its times are not
                kept, and only in a file that has none of an earlier attempt beside it.
            step: of the checkpoint.
            at: when that was made.
        """
        self._after_step = step
        for name, points in history.items():
            self._add(name, points, at=at, is_known=True)

    def heed(self, event: Event) -> None:
        """An event of the attempt's."""
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
        """Nothing more will come."""
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
        told = [(int(step), float("nan") if v is None else float(v)) for step, v in points]
        if self._is_broken or not told:
            return
        self._last_step = max(self._last_step, told[-1][0])
        if not is_known:  # a script may begin before its checkpoint
            self._after_step = min(self._after_step, told[0][0] - 1)
        wall_time = at.timestamp()
        self._write(
            lambda file: file.add(name, told, wall_time=wall_time),
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
        """Write to each file; they are made where a time is given and there are none."""
        try:
            if self._files is None and wall_time is not None:
                self._open(wall_time)
            for file in self._whole if is_known else self._files or ():
                write(file)
        except OSError as error:
            log.warning("no more events for TensorBoard", error=str(error))
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
    """The series in a checkpoint's file; none where it holds none or cannot be read."""
    # Imported here: numpy is needed by resumed attempts alone.
    from safetensors import SafetensorError, safe_open

    found: dict[str, list[tuple[int, float]]] = {}
    try:
        with safe_open(checkpoint, framework="numpy") as tensors:
            for key in tensors.keys():  # noqa: SIM118  it is no mapping
                if key.startswith(HISTORY):
                    steps, values = tensors.get_tensor(key).tolist()
                    found[key.removeprefix(HISTORY)] = _points(steps, values)
    except (OSError, SafetensorError, ValueError) as error:
        log.warning("no history in the checkpoint", checkpoint=checkpoint.name, error=str(error))
    return found


def _points(steps: list[float], values: list[float]) -> list[tuple[int, float]]:
    pairs = zip(steps, values, strict=True)
    return [(int(step), value) for step, value in pairs if math.isfinite(step)]


def name_folder(root: Path, *, job_id: str, job_name: str) -> Path:
    """Where a job's files lie below a folder for all jobs: TensorBoard shows it as one run."""
    plain = "".join(c if c.isalnum() or c in "._-" else "-" for c in job_name).strip(".-")
    return root / f"{plain or 'job'}-{job_id.removeprefix('job_')}"


def describe_manifest_time(manifest: Mapping[str, Any]) -> datetime | None:
    """When a checkpoint was made; None where its manifest does not tell."""
    try:
        return datetime.fromisoformat(str(manifest["created_at"]))
    except (KeyError, ValueError):
        return None
