"""Watching a running child: its events, its silence, its time limit, and requests to stop it."""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from redkiln.events import Event
from redkiln.spec.job_spec import JobSpec
from redkiln.tasks.script import ScriptSpec
from worker.agent.attempt.spool import EventSpool
from worker.agent.children.children import Child
from worker.agent.stopping import StopReason, StopSignal
from worker.settings import WorkerSettings

LOOK_SECONDS = 0.025
"""How often to look for new events; each look is one stat."""
MAX_LAPSE_SECONDS = 1.0
"""The longest time between two looks that counts as the child's silence. If more time passed,
the agent itself was stopped or starved of CPU time."""


@dataclass(frozen=True)
class Limits:
    """How long a child may take.

    Attributes:
        stall_seconds: Longest time without an event.
        end_at: Monotonic time at which it has run too long; None: no limit.
        grace_seconds: Time from SIGTERM to SIGKILL for each reason to stop; for any other reason
            the child is killed at once.
    """

    stall_seconds: float
    end_at: float | None
    grace_seconds: dict[StopReason, float]

    @classmethod
    def of(cls, spec: JobSpec, settings: WorkerSettings, *, end_at: float | None) -> "Limits":
        """Build the limits from a job's spec and its worker's settings.

        Args:
            spec: The job's spec.
            settings: The worker's settings.
            end_at: Monotonic time at which the attempt has run too long; None: no limit.
        """
        # The supervisor waits for the script's own grace period and then saves its files.
        own = spec.script.grace_seconds if isinstance(spec, ScriptSpec) else 0.0
        cancelled = settings.cancel_grace_seconds + own
        interrupted = settings.shutdown_grace_seconds + own
        return cls(
            stall_seconds=settings.stall_seconds,
            end_at=end_at,
            grace_seconds={
                StopReason.TOO_LONG: cancelled,
                StopReason.CANCELLED: cancelled,
                StopReason.SHUTDOWN: interrupted,
                StopReason.PAUSED: interrupted,
            },
        )


@dataclass
class Watch:
    """Watches one child until it has ended.

    Attributes:
        spool: The child's events, read from before it was started, because a fast child may
            have written all of them by now.
        on_event: Called with each event that the child writes.
    """

    child: Child
    spool: EventSpool
    stop: StopSignal
    limits: Limits
    on_event: Callable[[Event], None]
    clock: Callable[[], float] = time.monotonic
    _silent_seconds: float = 0.0
    _kill_at: float | None = None
    _sent_reason: StopReason | None = None

    def until_exit(self) -> int:
        """Wait for the child's end, and stop it when it must end sooner.

        Returns:
            Its exit status; negative: the signal that ended it.
        """
        looked_at = self.clock()
        while not self.child.wait(LOOK_SECONDS, wake_fd=self.stop.fileno()):
            now = self.clock()
            self._listen(lapse_seconds=now - looked_at)
            self._check_limits(now)
            self._obey(now)
            looked_at = now
        status = self.child.reap()
        while events := self.spool.take():
            self._pass_on(events)
        return status

    def _listen(self, *, lapse_seconds: float) -> None:
        self._silent_seconds += min(lapse_seconds, MAX_LAPSE_SECONDS)
        if self.spool.has_more and (events := self.spool.take()):
            self._silent_seconds = 0.0
            self._pass_on(events)

    def _pass_on(self, events: list[Event]) -> None:
        for event in events:
            self.on_event(event)

    def _check_limits(self, now: float) -> None:
        if self._silent_seconds > self.limits.stall_seconds:
            self.stop.request(StopReason.STALLED)
        if self.limits.end_at is not None and now > self.limits.end_at:
            self.stop.request(StopReason.TOO_LONG)

    def _obey(self, now: float) -> None:
        reason = self.stop.reason
        if reason is not None and reason != self._sent_reason:
            self.stop.clear()
            self._end_for(reason, now)
        if self._kill_at is not None and now >= self._kill_at:
            self.child.signal_group(signal.SIGKILL)

    def _end_for(self, reason: StopReason, now: float) -> None:
        grace_seconds = self.limits.grace_seconds.get(reason, 0.0)
        if self._sent_reason is None and grace_seconds > 0:
            self.child.signal_group(signal.SIGTERM)
        kill_at = now + grace_seconds
        self._kill_at = kill_at if self._kill_at is None else min(self._kill_at, kill_at)
        self._sent_reason = reason
