"""Watching a job: a live panel in a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterable, Set
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from redkiln.cli.arguments.naming import find_dataset_name
from redkiln.cli.command import print_json
from redkiln.cli.view import words
from redkiln.cli.view.panel import (
    STYLES,
    JobPanel,
    epoch_words,
    metric_words,
    queue_words,
    shown_metrics,
    step_words,
)
from redkiln.cli.view.sensors import MAX_POINTS, SensorFeed
from redkiln.cli.view.watched import Line, Watched, warning_of
from redkiln.client import Client, Disconnected, Reconnected, Snapshot, Update
from redkiln.client.watching import ask_patiently
from redkiln.events import EventKind
from redkiln.status import JobStatus, Phase
from redkiln.views.job import EventView, JobView, Progress

QUEUE_POLL_SECONDS = (0.1, 0.2, 0.3, 0.5, 1.0)
PLAIN_PROGRESS_SECONDS = 5.0
PLAIN_PROGRESS_SHARE = 0.05
"""Share of all steps after which a line is printed sooner than after `PLAIN_PROGRESS_SECONDS`."""
NOTABLE_WAIT = 0.05
"""Share of the time spent waiting for batches from which a line mentions it."""


AFTER_TRAINING = frozenset({Phase.EXPORTING, Phase.VERIFYING, Phase.UPLOADING})

DETACHES = "detaches"
"""What Ctrl-C does when a job is only watched."""


def watch_job(
    client: Client, job_id: str, console: Console, *, interrupt_means: str = DETACHES
) -> JobView:
    """Show a job on the console until it ends, and return its last state.

    Ctrl-C (KeyboardInterrupt) ends the watching, never the job.

    Args:
        client: Client of the service.
        job_id: Id of the job.
        console: A terminal gets a live panel, anything else one line an event.
        interrupt_means: Effect of Ctrl-C, as shown in the panel.

    Raises:
        ApiError: The service refused, or has no such job.
        ConnectionFailed: The service was away for ten minutes.
    """
    return follow_job(client, job_id, screen_for(console, interrupt_means=interrupt_means))


class Screen(Protocol):
    """Where a watched job is shown."""

    @property
    def warned(self) -> Set[str]:
        """Messages of the warnings that stay readable when the watching ends."""

    def open(self, watched: Watched) -> AbstractContextManager[object]:
        """Start showing the job."""

    def show(self, update: Update | None, lines: list[Line], /) -> None:
        """Show a change; `lines` describe it for people."""


def screen_for(console: Console, *, interrupt_means: str = DETACHES) -> Screen:
    """Return the screen that suits a console."""
    is_lively = console.is_terminal and not console.is_dumb_terminal
    if is_lively:
        return PanelScreen(console, interrupt_means=interrupt_means)
    return LineScreen(console)


def follow_job(client: Client, job_id: str, screen: Screen) -> JobView:
    """Keep a screen up to date with a job until the job ends; see `watch_job`."""
    job = client.job(job_id)
    watched = Watched(job, dataset_name=find_dataset_name(client, job))

    def apply(update: Update) -> None:
        screen.show(update, watched.apply(update))

    def refresh() -> None:
        watched.refresh(ask_patiently(lambda: client.job(job_id), on_change=apply))
        screen.show(None, [])

    with screen.open(watched), _feed(client, watched, screen):
        polls = 0
        while watched.status == JobStatus.QUEUED:  # the stream does not carry the queue position
            time.sleep(QUEUE_POLL_SECONDS[min(polls, len(QUEUE_POLL_SECONDS) - 1)])
            polls += 1
            refresh()
        for update in client.watch(job_id):
            known = watched.status
            apply(update)
            if watched.status != known:  # the stream does not carry the attempts either
                refresh()
        refresh()
    return watched.job


def _feed(client: Client, watched: Watched, screen: Screen) -> AbstractContextManager[object]:
    """Return what keeps the sensors up to date, if the screen shows them."""
    if not isinstance(screen, PanelScreen):
        return nullcontext()
    job_id = watched.job.id
    return SensorFeed(
        watched.sensors,
        lambda after_ms: client.telemetry(job_id, after_ms=after_ms, max_points=MAX_POINTS),
    )


class PanelScreen:
    """A panel that redraws itself and disappears when the watching ends."""

    warned: Set[str] = frozenset()

    def __init__(self, console: Console, *, interrupt_means: str = DETACHES) -> None:
        self._console = console
        self._interrupt_means = interrupt_means

    def open(self, watched: Watched) -> AbstractContextManager[object]:
        """Start drawing."""
        panel = JobPanel(watched, interrupt_means=self._interrupt_means)
        # rich's own thread redraws it, so that times advance between two updates.
        return Live(panel, console=self._console, refresh_per_second=8, transient=True)

    def show(self, _update: Update | None, _lines: list[Line], /) -> None:
        """Do nothing: the next redraw shows the change."""


class LineScreen:
    """One line for each event, and one for the progress every few seconds or few percent."""

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.warned: set[str] = set()
        self._console = console
        self._clock = clock
        self._watched: Watched | None = None
        self._printed_at = 0.0
        self._printed_queue = ""
        self._printed_fraction = 0.0
        self._printed_step = -1
        self._printed_phases: set[str] = set()
        self._held: list[Line] | None = None
        """Lines for after the last progress of the training; None while it trains."""

    def open(self, watched: Watched) -> AbstractContextManager[object]:
        """Print which job is watched."""
        self._watched = watched
        self._print(f"{watched.job.name} ({watched.job.id}): {watched.status}")
        self._printed_at = self._clock()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Do nothing."""

    def show(self, update: Update | None, lines: list[Line], /) -> None:
        """Print what has changed.

        A progress comes after the events of its time. So the end of the training, and what follows
        it, is held until its last progress is known.
        """
        if isinstance(update, EventView):
            self.warned |= warning_of(update)
            if update.kind == "started":
                self._printed_phases.clear()
            if self._held is None and _ends_training(update):
                self._held = []
        shown = filter(self._is_shown, lines)
        if self._held is not None and isinstance(update, EventView):
            self._held += shown
            return
        self._print_lines(shown)
        self._show_state()
        self._print_lines(self._held or [])
        self._held = None

    def _print_lines(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self._print(line.text, STYLES[line.tone])

    def _is_shown(self, line: Line) -> bool:
        """Return whether a line is printed, and not a repetition of every epoch."""
        if line.tone == "phase":
            if line.text in self._printed_phases:
                return False
            self._printed_phases.add(line.text)
        return line.topic is None

    def _show_state(self) -> None:
        assert self._watched is not None
        if self._watched.status == JobStatus.QUEUED:
            waiting = queue_words(self._watched)
            if waiting and waiting != self._printed_queue:
                self._print(f"queued: {waiting}")
            self._printed_queue = waiting
        elif self._watched.progress is not None:
            self._show_progress(self._watched, self._watched.progress)

    def _show_progress(self, watched: Watched, progress: Progress) -> None:
        if progress.steps == 0 or progress.step == self._printed_step:
            return
        if progress.fraction < self._printed_fraction:  # a new attempt, or a step back
            self._printed_fraction = 0.0
        is_news = progress.fraction - self._printed_fraction >= PLAIN_PROGRESS_SHARE
        is_due = is_news or self._clock() - self._printed_at >= PLAIN_PROGRESS_SECONDS
        if watched.status != JobStatus.RUNNING or watched.phase in AFTER_TRAINING:
            is_due = self._held is not None  # the last progress, and none after the end of training
        if is_due:
            self._printed_at = self._clock()
            self._printed_fraction, self._printed_step = progress.fraction, progress.step
            self._print(progress_words(watched))

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style=style), soft_wrap=True)


def _ends_training(event: EventView) -> bool:
    """Return whether an attempt no longer trains from an event on."""
    is_over = event.kind in (EventKind.FAILURE, *(one for one in JobStatus if one.is_terminal))
    return is_over or event.data.get("phase") in AFTER_TRAINING


def progress_words(watched: Watched) -> str:
    """Describe the progress in one line."""
    progress = watched.progress
    assert progress is not None
    eta = watched.eta_seconds()
    parts = [
        f"{100 * progress.fraction:3.0f} %",
        f"epoch {epochs}" if (epochs := epoch_words(progress)) else "",
        f"step {step}" if (step := step_words(progress)) else "",
        *(f"{metric_words(n)} {words.metric(n, v)}" for n, v in shown_metrics(progress.metrics)),
        f"lr {words.number(progress.metrics['lr'])}" if "lr" in progress.metrics else "",
        f"{words.count(progress.samples_per_second)} samples/s"
        if progress.samples_per_second is not None
        else "",
        f"waits for data {100 * progress.data_wait_ratio:.0f} %"
        if progress.data_wait_ratio is not None and progress.data_wait_ratio >= NOTABLE_WAIT
        else "",
        progress.activity or "",
        f"ETA {words.duration(eta)}" if eta is not None and progress.fraction < 1 else "",
    ]
    return ", ".join(part for part in parts if part)


class JsonScreen:
    """One JSON object a line on stdout, each with its `type`."""

    warned: Set[str] = frozenset()

    def open(self, watched: Watched) -> AbstractContextManager[object]:
        """Print the job in its present state."""
        self._watched = watched
        print_json({"type": "job", "job": watched.job})
        return nullcontext()

    def show(self, update: Update | None, _lines: list[Line], /) -> None:
        """Print the update, or the job without one."""
        match update:
            case EventView():
                print_json({"type": "event", "event": update})
            case Snapshot():
                print_json({"type": "progress", **update.model_dump(mode="json")})
            case Disconnected(reason):
                print_json({"type": "disconnected", "reason": reason})
            case Reconnected():
                print_json({"type": "reconnected"})
            case None:
                if self._watched.job.is_terminal:
                    print_json({"type": "job", "job": self._watched.job})
