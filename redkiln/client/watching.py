"""Streams of a job that survive lost connections: its events and its log."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from httpx_sse import EventSource, ServerSentEvent, SSEError
from pydantic import BaseModel

from redkiln.client.connection import Connection
from redkiln.errors import ConnectionFailed, RedkilnError, Unavailable
from redkiln.status import AttemptStatus, Phase
from redkiln.views.job import AttemptView, EventView, JobView, Progress, Reason

Answer = TypeVar("Answer")

RECONNECT_SECONDS = (0.3, 0.5, 1.0, 2.0, 5.0)
"""Waits before reconnecting a broken stream; the last one repeats."""

NEXT_LOOK_SECONDS = 0.3
"""Wait between two checks for more of a log, or for another attempt."""

PATIENCE_SECONDS = 600.0
"""How long to wait for a service that is away."""


class Snapshot(BaseModel):
    """The state of a job, as its stream reports it between events."""

    status: str
    phase: Phase | None = None
    progress: Progress | None = None
    reason: Reason | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True)
class Disconnected:
    """The stream broke; the client is reconnecting."""

    reason: str


@dataclass(frozen=True)
class Reconnected:
    """The stream continues where it broke."""


Update = EventView | Snapshot | Disconnected | Reconnected
"""What `Client.watch` yields."""


class Outage:
    """Counts for how long and how often the service was away.

    Args:
        patience_seconds: Time away after which the error is raised.
        clock: Returns monotonic seconds.
        sleep: Waits for a number of seconds.
    """

    def __init__(
        self,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._sleep = sleep
        self._failures = 0
        self._began_at = 0.0

    @property
    def is_on(self) -> bool:
        """Whether the last try failed."""
        return self._failures > 0

    def note(self, error: RedkilnError) -> bool:
        """Count a failure; return True for the first of an outage.

        Raises:
            RedkilnError: The error itself, when patience has run out.
        """
        self._failures += 1
        if self._failures == 1:
            self._began_at = self._clock()
        elif self._clock() - self._began_at > self._patience_seconds:
            raise error
        return self._failures == 1

    def wait(self) -> None:
        """Sleep until the next try."""
        self._sleep(self.pause_seconds)

    @property
    def pause_seconds(self) -> float:
        """Time until the next try."""
        return RECONNECT_SECONDS[min(self._failures, len(RECONNECT_SECONDS)) - 1]

    def end(self) -> bool:
        """End the outage; return True if the service was away."""
        was_on, self._failures = self.is_on, 0
        return was_on


def reason_of(error: RedkilnError) -> str:
    """Describe an outage in a few words."""
    return error.reason if isinstance(error, ConnectionFailed) else str(error)


def ask_patiently(
    ask: Callable[[], Answer],
    *,
    on_change: Callable[[Disconnected | Reconnected], None] | None = None,
    outage: Outage | None = None,
) -> Answer:
    """Ask the service until it answers.

    Args:
        ask: Request that may raise `ConnectionFailed` or `Unavailable`.
        on_change: Called when the service goes away and when it is back.
        outage: Patience to use.

    Raises:
        ApiError: The service refused.
        ConnectionFailed: Patience has run out.
    """
    outage = outage or Outage()
    while True:
        try:
            answer = ask()
        except (ConnectionFailed, Unavailable) as error:
            if outage.note(error) and on_change:
                on_change(Disconnected(reason_of(error)))
            outage.wait()
        else:
            if outage.end() and on_change:
                on_change(Reconnected())
            return answer


def watch_events(
    connection: Connection, job_id: str, *, after_seq: int, patience_seconds: float
) -> Iterator[Update]:
    """Yield a job's events as they come, until the service says that there will be no more."""
    outage = Outage(patience_seconds=patience_seconds)
    while True:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after_seq)}
        try:
            with connection.stream(f"/v1/jobs/{job_id}/events", headers=headers) as response:
                for message in EventSource(response).iter_sse():
                    if not message.data:
                        continue  # a comment, which keeps the connection open
                    # Only after a message: a dying service may still accept connections.
                    if outage.end():
                        yield Reconnected()
                    if message.event == "end":
                        return
                    update = read_message(message)
                    after_seq = seq_after(update, after_seq)
                    yield update
            error: RedkilnError = ConnectionFailed(connection.url, "the stream ended early")
        except SSEError as broken:
            error = ConnectionFailed(connection.url, str(broken))
        except (ConnectionFailed, Unavailable) as broken:
            error = broken
        if outage.note(error):
            yield Disconnected(reason_of(error))
        outage.wait()


def read_message(message: ServerSentEvent) -> EventView | Snapshot:
    """Return what a message of a job's stream says."""
    if message.event == "progress":
        return Snapshot.model_validate_json(message.data)
    return EventView.model_validate_json(message.data)


def seq_after(update: EventView | Snapshot, seq: int) -> int:
    """Return the event after which a broken stream continues."""
    return update.seq if isinstance(update, EventView) else seq


def follow_log(
    connection: Connection, job_id: str, *, attempt_id: str | None, offset: int, only: int | None
) -> Iterator[bytes]:
    """Yield a log as it grows, through the job's later attempts.

    Each attempt is requested by its id, so that an offset cannot refer to another attempt's log.

    Args:
        connection: Connection to the service.
        job_id: Id of the job.
        attempt_id: First attempt; None for the newest.
        offset: Byte offset in that attempt's log.
        only: Number of the only attempt to read; None reads all later ones.
    """
    outage = Outage()
    was_running = True
    while True:
        try:
            job = _get_job(connection, job_id)
            attempt = choose_attempt(job.attempts, attempt_id, was_running=was_running, only=only)
            if attempt is None and (job.is_terminal or only is not None):
                return
            if attempt is not None:
                if attempt_id not in (None, attempt.id):
                    offset = 0
                attempt_id = attempt.id
                was_running = attempt.status is AttemptStatus.RUNNING
                params = {"follow": "true", "offset": offset, "attempt": attempt_id}
                with connection.stream(f"/v1/jobs/{job_id}/logs", params=params) as response:
                    for chunk in response.iter_bytes():
                        offset += len(chunk)
                        yield chunk
            outage.end()
        except (ConnectionFailed, Unavailable) as error:
            outage.note(error)
            outage.wait()
            continue
        time.sleep(NEXT_LOOK_SECONDS)


def choose_attempt(
    attempts: Sequence[AttemptView],
    current_id: str | None,
    *,
    was_running: bool,
    only: int | None = None,
) -> AttemptView | None:
    """Return the attempt whose log comes next; None if there is nothing more to read.

    Args:
        attempts: Attempts of the job, in order.
        current_id: Attempt that was read last.
        was_running: Whether it may have written more since.
        only: Number of the only attempt to read.
    """
    wanted = [attempt for attempt in attempts if only is None or attempt.number == only]
    current = next((attempt for attempt in wanted if attempt.id == current_id), None)
    if current is None:
        return wanted[-1] if wanted else None
    if was_running or current.status is AttemptStatus.RUNNING:
        return current
    return next((attempt for attempt in wanted if attempt.number > current.number), None)


def _get_job(connection: Connection, job_id: str) -> JobView:
    content = connection.request("GET", f"/v1/jobs/{job_id}").content
    return JobView.model_validate_json(content)
