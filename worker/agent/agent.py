"""The agent: answers the doorbell, polls while idle, runs attempts and shuts down in order.

`worker.agent.parts` builds the parts that it uses; each part has its own file.
"""

import os
import threading
import time
from collections.abc import Callable

import structlog

from redkiln.failure import JobFailure
from redkiln.views.hardware import GpuState
from worker.agent.attempt.attempt import Attempt
from worker.agent.attempt.refused import report_refused
from worker.agent.backoff import Backoff
from worker.agent.offers import Claimed, NoClaim, offer_slots
from worker.agent.parts import Parts, build_parts
from worker.agent.stopping import StopSignal
from worker.agent.tracking.follower import explain_missing
from worker.agent.workdir import FreeSpace
from worker.settings import WorkerSettings

log = structlog.get_logger(__name__)

BUSY_SECONDS = 1.0
"""How long a doorbell waits for a free slot before it is passed to another worker."""
REPORT_GRACE_SECONDS = 20.0
"""How long a worker that shuts down waits for the service after the trainers' grace period."""


class Agent:
    """A worker's lifetime: `start`, `answer` from any thread, `ask_to_stop`, `join`.

    Args:
        settings: See `worker.settings`.
        on_fatal: Called once, from one of the agent's threads, when the worker cannot continue.
    """

    def __init__(self, settings: WorkerSettings, *, on_fatal: Callable[[], None]) -> None:
        self._settings = settings
        self._on_fatal = on_fatal
        self._stop_at: float | None = None
        self._stop_fd = os.eventfd(0, os.EFD_CLOEXEC)
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._poller = threading.Thread(target=self._poll, name="poller", daemon=True)
        self._claiming = threading.Lock()
        self._space = FreeSpace(settings.worker_dir, least_bytes=settings.worker_min_free_bytes)
        self._parts: Parts  # set by `start`
        self.fatal: str | None = None

    @property
    def num_slots(self) -> int:
        """Number of attempts that can run at once; known after `start`."""
        return len(self._parts.slots.slots)

    def start(self) -> None:
        """Lock the worker's folder, detect the hardware, register and begin to poll.

        Raises:
            FolderInUse: Another agent uses the folder.
            InventoryFailed: torch could not report its version and devices.
            OSError: The folder cannot be created or written, or the metrics address is in use.
        """
        if missing := explain_missing(self._settings):
            log.warning(missing)
        self._parts = build_parts(
            self._settings,
            fail=self._fail,
            on_gpu_change=self._on_gpu_change,
            is_out_of_time=self._is_out_of_time,
        )
        threading.Thread(target=self._await_stop, name="stopper", daemon=True).start()
        self._parts.start(metrics_bind=self._settings.metrics_bind)
        self._poller.start()

    def answer(self, hint: str | None) -> bool:
        """Claim and run attempts until no job is left.

        Args:
            hint: Job id from the doorbell message.

        Returns:
            False if no slot is free, so that another worker should answer.
        """
        if not self._parts.slots.wait_for_free(BUSY_SECONDS):
            return False
        claimed = self._claim(hint)
        if claimed is NoClaim.BUSY:
            self._stopping.wait(BUSY_SECONDS)
            return False
        self._serve(claimed)
        return True

    def gpu_states(self) -> list[GpuState]:
        """Return every GPU of the host: facts, readings, its attempt and why it is excluded."""
        return self._parts.gpus.list_states()

    def ask_to_stop(self) -> None:
        """Begin to shut down; safe to call from a signal handler."""
        os.eventfd_write(self._stop_fd, 1)

    @property
    def is_stopping(self) -> bool:
        """Whether the worker has been asked to stop."""
        return self._stopping.is_set()

    def wait_until_stopping(self, timeout_seconds: float | None = None) -> None:
        """Wait until the worker is asked to stop or the timeout expires."""
        self._stopping.wait(timeout_seconds)

    def join(self) -> None:
        """Wait until every attempt has ended, then end the spares."""
        self._parts.slots.wait_until_free()
        self._poller.join()
        self._parts.close()

    def _on_gpu_change(self) -> None:
        """React to a GPU that was included or excluded: look for work and report the change."""
        self._wake.set()
        self._parts.status.hurry()

    def _is_out_of_time(self) -> bool:
        grace_seconds = self._settings.shutdown_grace_seconds + REPORT_GRACE_SECONDS
        return self._stop_at is not None and time.monotonic() > self._stop_at + grace_seconds

    def _await_stop(self) -> None:
        os.eventfd_read(self._stop_fd)
        log.info("shutting down")
        self._stop_at = time.monotonic()
        self._stopping.set()
        self._wake.set()
        self._parts.slots.close()

    def _fail(self, message: str) -> None:
        if self.fatal is None:
            self.fatal = message
            log.critical("the worker cannot continue", reason=message)
            self.ask_to_stop()
            self._on_fatal()

    def _poll(self) -> None:
        backoff = Backoff()
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                has_answered = self._poll_once()
            except Exception:  # a full disk, for instance, from which polling can recover
                log.exception("polling failed; retrying")
                has_answered = False
            if has_answered:
                backoff.reset()
                self._wake.wait(self._parts.registration.poll_seconds)
            else:
                self._stopping.wait(backoff.next_seconds())

    def _poll_once(self) -> bool:
        """Claim until no job is left; return whether the service answered."""
        self._settings.alive_path.touch()
        if not self._parts.registration.is_known:
            if not self._parts.registration.greet(slots=self.num_slots):
                return False
            self._parts.status.welcome()
        while isinstance(claimed := self._claim(hint=None), Claimed):
            name = claimed.claim.attempt_id
            threading.Thread(target=self._serve, args=(claimed,), name=name, daemon=True).start()
        return claimed is not NoClaim.UNANSWERED

    def _serve(self, claimed: Claimed | NoClaim) -> None:
        while isinstance(claimed, Claimed):
            try:
                self._run(claimed)
            finally:
                self._parts.slots.give_back(*claimed.slots)
            claimed = self._claim(hint=None)

    def _run(self, claimed: Claimed) -> None:
        claim, slot, stop = claimed.claim, claimed.slots[0], StopSignal()
        self._parts.slots.occupy(slot, stop)
        self._parts.status.hurry()
        with structlog.contextvars.bound_contextvars(
            job_id=claim.job_id, attempt_id=claim.attempt_id
        ):
            log.info("attempt starts", number=claim.number)
            try:
                client, spec = self._parts.client.attempt(claim), claimed.spec
                if isinstance(spec, JobFailure):
                    report_refused(client, spec, is_out_of_time=self._is_out_of_time)
                else:
                    outcome = Attempt(
                        claim, spec, client, slot.resources, stop, claimed.allocation
                    ).run()
                    log.info("attempt ended", outcome=outcome)
            except Exception:  # the slot must serve the next job, whatever went wrong here
                log.exception("attempt failed; the service will notice when its lease expires")
            finally:
                self._parts.slots.vacate(slot)
                self._parts.status.hurry()

    def _claim(self, hint: str | None) -> Claimed | NoClaim:
        """Ask for a job for all free slots, and free those that it does not need."""
        if self._stopping.is_set() or not self._parts.registration.is_known:
            return NoClaim.NO_JOB
        if not self._space.is_enough():  # a job would fail here, and use up its attempts
            return NoClaim.BUSY
        with self._claiming:
            engine_pool = self._parts.engine_pool
            offers = offer_slots(self._parts.slots.take_free(), self._parts.gpus.pool, engine_pool)
            claimed: Claimed | NoClaim = NoClaim.BUSY
            try:
                for offer in offers.ready:
                    offer.slot.resources.launcher.start_spare()
                    offer.slot.resources.launcher.start_export_spare()
                if offers.ready:
                    claim = self._parts.registration.claim(offers, hint=hint)
                    if isinstance(claim, NoClaim):
                        claimed = claim
                    else:
                        claimed = offers.settle(claim, self._parts.gpus.pool, engine_pool)
            finally:
                kept = claimed.slots if isinstance(claimed, Claimed) else ()
                given = claimed.allocation.leases if isinstance(claimed, Claimed) else ()
                self._parts.slots.give_back(*offers.let_go(kept, given))
        if claimed is NoClaim.UNANSWERED or not self._parts.registration.is_known:
            self._wake.set()
        return claimed
