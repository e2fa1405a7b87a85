"""Shows the output of a running script together with the other events of its job."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable

from rich.text import Text

from redkiln.cli.command import Session
from redkiln.cli.view import words
from redkiln.cli.view.live import JsonScreen, follow_job
from redkiln.cli.view.panel import STYLES
from redkiln.cli.view.terminal import safe_log
from redkiln.cli.view.watched import describe_event, warning_of
from redkiln.client import Disconnected, Reconnected, Update
from redkiln.client.watching import ask_patiently
from redkiln.errors import RedkilnError
from redkiln.events import EventKind
from redkiln.views.job import EventView, JobView

CHECKPOINT_SECONDS = 60.0
"""Least time between two lines about checkpoints."""
_COMMITTED = "committed"
_NOT_PRINTED = frozenset({
    *(EventKind.PROGRESS, EventKind.METRICS, EventKind.RESULT, EventKind.CHECKPOINT),
    "submitted",
})  # fmt: skip


def follow_script(session: Session, job: JobView, warned: set[str]) -> JobView:
    """Show a job's output and its other events until it ends; add what it warned of."""
    if session.is_json:
        return follow_job(session.client, job.id, JsonScreen())
    session.note(Text(f"{job.name} ({job.id})", style="dim"))
    output = ScriptOutput(session)
    printer = threading.Thread(
        target=_print_events, args=(session, job.id, output, warned), daemon=True
    )
    printer.start()
    output.print_log(session.client.logs(job.id, follow=True))
    printer.join(timeout=5)
    return ask_patiently(lambda: session.client.job(job.id), on_change=lambda _: None)


class ScriptOutput:
    """Prints a script's output, and separate lines that never continue a line of the script."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._is_shared = _share_a_place()
        self._is_inside_line = False

    def print_log(self, chunks: Iterable[bytes]) -> None:
        """Print the script's output as it comes."""
        binary = sys.stdout.buffer
        for chunk in safe_log(chunks):
            with self._lock:
                binary.write(chunk)
                binary.flush()
                if chunk:
                    self._is_inside_line = not chunk.endswith(b"\n")

    def note(self, text: str, *, style: str) -> None:
        """Print a line in brackets on stderr; where it would continue a line, end that first."""
        with self._lock:
            if self._is_shared and self._is_inside_line:
                sys.stdout.buffer.write(b"\n")
                sys.stdout.buffer.flush()
                self._is_inside_line = False
            self._session.note(Text(f"[{text}]", style=style))


class CheckpointCount:
    """Sums up a job's checkpoints, of which a script may write one every second.

    Args:
        clock: Returns the time in seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said_at = clock()
        self._num = self._num_said = 0
        self._step = 0

    def add(self, step: int) -> str | None:
        """Count a checkpoint; return the line about all of them if it is time for one."""
        self._num += 1
        self._step = step
        if self._clock() - self._said_at < CHECKPOINT_SECONDS:
            return None
        return self.sum_up()

    def sum_up(self) -> str | None:
        """Return the line about the checkpoints so far; None if nothing is new."""
        if self._num == self._num_said:
            return None
        self._num_said = self._num
        self._said_at = self._clock()
        return (
            f"{words.plural(self._num, 'checkpoint')} so far, the last at step "
            f"{words.count(self._step)}"
        )


def _share_a_place() -> bool:
    """Return whether stdout and stderr end up in one terminal or file."""
    try:
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError):  # one of them is closed, or is not a file
        return False


def _print_events(session: Session, job_id: str, output: ScriptOutput, warned: set[str]) -> None:
    checkpoints = CheckpointCount()
    try:
        for update in session.client.watch(job_id):
            _print_update(update, checkpoints, output, warned)
    except RedkilnError as error:
        output.note(f"events of the job are no longer shown: {error}", style="yellow")
    if line := checkpoints.sum_up():
        output.note(line, style=STYLES["quiet"])


def _print_update(
    update: Update, checkpoints: CheckpointCount, output: ScriptOutput, warned: set[str]
) -> None:
    if isinstance(update, EventView) and update.kind == _COMMITTED and "step" in update.data:
        if line := checkpoints.add(update.data["step"]):
            output.note(line, style=STYLES["quiet"])
    elif isinstance(update, EventView) and update.kind not in _NOT_PRINTED:
        warned |= warning_of(update)
        for described in describe_event(update, is_summed_up=True):
            output.note(described.text, style=STYLES[described.tone])
    elif isinstance(update, Disconnected):
        output.note(f"connection lost ({update.reason}), reconnecting", style="yellow")
    elif isinstance(update, Reconnected):
        output.note("reconnected", style="green")
