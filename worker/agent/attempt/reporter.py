"""Reports an attempt's events and log, which is also its heartbeat, and receives commands."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from redkiln.events import EventKind
from redkiln.protocol import ReportRequest, ReportResponse
from worker.agent.attempt.series import SeriesBuffer, Telemetry
from worker.agent.attempt.spool import EventSpool, Line, file_size, read_log_chunk
from worker.agent.backoff import Backoff
from worker.agent.client import SequenceGap, ServiceAway, ServiceError, Superseded
from worker.agent.stopping import StopReason, StopSignal
from worker.jobdir import JobDir

log = structlog.get_logger(__name__)

BATCH_SECONDS = 1.0
"""How often news that can wait is sent."""
URGENT_SECONDS = 0.1
"""Least pause before a change of state is sent; very short epochs change it many times a second."""
TELEMETRY_SECONDS = 5.0
"""How often telemetry is added to a report. Each time the service rewrites a chunk of every
series, so this is less often than heartbeats may be."""
URGENT = frozenset(
    {
        EventKind.PHASE,
        EventKind.RESOLVED,
        EventKind.CHECKPOINT,
        EventKind.RESULT,
        EventKind.FAILURE,
    }
)
COMMANDS = {"pause": StopReason.PAUSED, "cancel": StopReason.CANCELLED}


class Reports(Protocol):
    """Where reports go."""

    def report(self, request: ReportRequest) -> ReportResponse:
        """Send events and log; receive a command."""


@dataclass
class Reporter:
    """A thread that reports one attempt until it is stopped.

    It keeps retrying while the service is unreachable: only the service itself can decide that an
    attempt is lost.

    Attributes:
        report_seconds: Longest time between two reports; the service's answers change it.
        series: Telemetry to send with the reports.
    """

    client: Reports
    jobdir: JobDir
    stop: StopSignal
    report_seconds: float
    series: SeriesBuffer = field(default_factory=SeriesBuffer)
    clock: Callable[[], float] = time.monotonic
    _telemetry_at: float = -float("inf")
    _spool: EventSpool = field(init=False)
    _log_offset: int = 0
    _log_full: bool = False
    _told_dropped: int = 0
    _is_over: bool = False
    _has_ended: bool = False
    _is_urgent: bool = False
    _wake: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self._spool = EventSpool(self.jobdir.events_path)

    @property
    def last_seq(self) -> int:
        """Number of the last acknowledged event."""
        return self._spool.next_seq - 1

    def start(self) -> None:
        """Start reporting."""
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)
        self._thread.start()

    def hurry(self) -> None:
        """Send the next report soon, because something changed that others wait to see."""
        with self._wake:
            self._is_urgent = True
            self._wake.notify_all()

    def wait_reported(self, end_offset: int, timeout_seconds: float) -> bool:
        """Wait until the events before an offset of their file are acknowledged.

        Returns:
            Whether they are, or the thread has ended, so that it will not report them.
        """
        with self._wake:
            return self._wake.wait_for(
                lambda: self._spool.offset >= end_offset or self._has_ended, timeout_seconds
            )

    def halt(self) -> None:
        """Stop reporting."""
        with self._wake:
            self._is_over = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join()

    def flush(self) -> None:
        """Send everything that is left; call it after `halt`. A repeated call resumes where it was.

        Raises:
            ServiceError: See `worker.agent.client`.
        """
        while self._has_news():
            self._send()
        if self._count_dropped() > self._told_dropped:  # the log became full with the last report
            self._send()
        while telemetry := self.series.peek():
            self._send(telemetry)

    def _run(self) -> None:
        try:
            self._report_until_over()
        finally:
            with self._wake:
                self._has_ended = True
                self._wake.notify_all()

    def _report_until_over(self) -> None:
        backoff = Backoff(cap_seconds=min(10.0, max(self.report_seconds, 0.5)))
        sent_at = -float("inf")
        not_before = 0.0
        while self._wait_until_due(sent_at, not_before):
            try:
                self._send()
            except Superseded as error:
                log.warning("attempt lost", error=str(error))
                self.stop.request(StopReason.SUPERSEDED)
                return
            except (ServiceAway, OSError) as error:
                not_before = self.clock() + backoff.next_seconds()
                log.warning("report failed", error=str(error))
                continue
            except ServiceError as error:
                # The service would refuse this report again, and hours of work would stay unseen.
                log.error("report refused", error=str(error))
                self.stop.request(StopReason.REFUSED)
                return
            backoff.reset()
            sent_at = self.clock()

    def _wait_until_due(self, sent_at: float, not_before: float) -> bool:
        with self._wake:
            while not self._is_over:
                due_at = max(sent_at + self._pause_seconds(), not_before)
                wait_seconds = due_at - self.clock()
                if wait_seconds <= 0:
                    self._is_urgent = False
                    return True
                # Look at the files regularly, because not everything that grows is announced.
                self._wake.wait(min(wait_seconds, BATCH_SECONDS))
            return False

    def _pause_seconds(self) -> float:
        if self._is_urgent:
            return min(URGENT_SECONDS, self.report_seconds)
        if self._has_news():
            return min(BATCH_SECONDS, self.report_seconds)
        return self.report_seconds

    def _has_news(self) -> bool:
        # A dead trainer may leave an incomplete line, which is not news.
        if self._spool.has_more and self._spool.peek():
            return True
        return not self._log_full and file_size(self.jobdir.log_path) > self._log_offset

    def _send(self, telemetry: Telemetry | None = None) -> None:
        lines = self._spool.peek()
        telemetry = self._due_telemetry() if telemetry is None else telemetry
        request = self._build(lines, telemetry)
        try:
            answer = self.client.report(request)
        except SequenceGap as gap:
            # Use the service's number. It is lower than what it acknowledged if its database was
            # restored, and higher if its answer to an earlier batch was lost.
            self._spool.seek(gap.expected_seq)
            return
        self._told_dropped = request.dropped_log_bytes
        self._apply(answer, lines)
        if telemetry:
            self.series.drop(telemetry)
            self._telemetry_at = self.clock()

    def _due_telemetry(self) -> Telemetry:
        """Return the points to send along, unless the last ones arrived too recently."""
        if self.clock() < self._telemetry_at + TELEMETRY_SECONDS:
            return {}
        return self.series.peek()

    def _build(self, lines: list[Line], telemetry: Telemetry | None = None) -> ReportRequest:
        chunk = None
        if not self._log_full:
            chunk = read_log_chunk(self.jobdir.log_path, offset=self._log_offset)
        return ReportRequest.model_construct(
            first_seq=self._spool.next_seq,
            events=[line.event for line in lines],
            log=chunk,
            dropped_log_bytes=self._count_dropped(),
            telemetry=telemetry or {},
        )

    def _count_dropped(self) -> int:
        """Return how many bytes of the log the service no longer wants."""
        if not self._log_full:
            return 0
        return max(0, file_size(self.jobdir.log_path) - self._log_offset)

    def _apply(self, answer: ReportResponse, lines: list[Line]) -> None:
        last_seq = self._spool.next_seq + len(lines) - 1
        if answer.acked_seq > last_seq:
            self._spool.seek(answer.acked_seq + 1)
        else:
            self._spool.advance(to_seq=answer.acked_seq)
        with self._wake:
            self._wake.notify_all()
        self._log_offset = answer.log_size
        self._log_full = answer.log_full
        self.report_seconds = answer.report_seconds
        reason = COMMANDS.get(answer.command)
        if reason is not None:
            self.stop.request(reason)
