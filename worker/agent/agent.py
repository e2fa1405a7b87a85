"""The agent: keeps slots and their spares, answers the doorbell and polls while idle.

It builds all parts of a worker and shuts them down in the right order; each part has its own file.
"""

import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO

import structlog

from redkiln.views.hardware import GpuState, GpuTelemetry
from worker.agent.attempt.attempt import Attempt, SlotResources
from worker.agent.backoff import Backoff
from worker.agent.children.children import Spawner
from worker.agent.children.launch import SOURCE_DIR, Launcher
from worker.agent.client import ServiceClient
from worker.agent.data.cache import DatasetCache
from worker.agent.doctor import DoctorRounds
from worker.agent.exposition import WorkerState, serve_metrics
from worker.agent.gpus.gpu_checks import GpuChecks, SelfTest
from worker.agent.gpus.patching import Patching
from worker.agent.gpus.pool import GpuPool
from worker.agent.gpus.sensors import HostGpus, find_host_gpus
from worker.agent.inventory import (
    Inventory,
    SlotPlan,
    ask_inventory,
    count_cores,
    find_gpus,
    plan_slots,
)
from worker.agent.offers import Claimed, NoClaim, offer_slots
from worker.agent.registration import Registration
from worker.agent.slots import SlotPool
from worker.agent.status import StatusTeller
from worker.agent.stopping import StopSignal
from worker.agent.workdir import drop_old_jobs, load_worker_id, lock_worker_dir
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
        self._client = ServiceClient(settings.service_url, load_key=settings.load_key)
        self._boot_id = secrets.token_hex(16)
        self._stop_at: float | None = None
        self._stop_fd = os.eventfd(0, os.EFD_CLOEXEC)
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._poller = threading.Thread(target=self._poll, name="poller", daemon=True)
        self._worker_id = ""
        self._lock_file: IO[str] | None = None
        self._inventory = Inventory()
        self._pool = SlotPool([])
        self._claiming = threading.Lock()
        self._registration: Registration  # set by `start`, like the slots that use it
        self._gpus: HostGpus | None = None
        self._park: GpuPool | None = None
        self._checks: GpuChecks | None = None
        self._status: StatusTeller | None = None
        self._doctor: DoctorRounds | None = None
        self._stop_metrics: Callable[[], None] | None = None
        self.fatal: str | None = None

    @property
    def num_slots(self) -> int:
        """Number of attempts that can run at once; known after `start`."""
        return len(self._pool.slots)

    def start(self) -> None:
        """Lock the worker's folder, detect the hardware, register and begin to poll.

        Raises:
            FolderInUse: Another agent uses the folder.
            InventoryFailed: torch could not report its version and devices.
            OSError: The folder cannot be created or written, or the metrics address is in use.
        """
        settings = self._settings
        settings.prepare_dirs()
        self._lock_file = lock_worker_dir(settings.worker_dir)
        self._worker_id = load_worker_id(settings.worker_dir)
        drop_old_jobs(settings.jobs_dir, max_age_seconds=settings.keep_jobs_hours * 3600)
        spawner = Spawner()
        self._inventory = ask_inventory(settings, spawner, source_dir=SOURCE_DIR)
        self._gpus = find_host_gpus(settings)
        known = find_gpus(self._inventory, self._gpus.facts, wanted=settings.gpus)
        if known:
            self._park = GpuPool(known, settings, worker_id=self._worker_id)
        plans = plan_slots(
            self._inventory,
            [gpu for gpu in known if gpu.excluded is None],
            num_cores=count_cores(),
            wanted=settings.slots,
            threads=settings.threads,
        )
        self._registration = Registration(
            self._client,
            settings,
            worker_id=self._worker_id,
            boot_id=self._boot_id,
            inventory=self._inventory,
            fail=self._fail,
        )
        self._status = StatusTeller(
            self._client,
            worker_id=self._worker_id,
            boot_id=self._boot_id,
            read_gpus=self.gpu_states,
            read_cost=lambda: self._gpus.cost_seconds if self._gpus else None,
        )
        self._doctor = DoctorRounds(
            spawner,
            worker_dir=settings.worker_dir.resolve(),
            inventory=self._inventory,
            tell=self._status.tell_doctor,
            source_dir=SOURCE_DIR,
        )
        cache = DatasetCache(settings.datasets_dir, budget_bytes=settings.cache_bytes)
        self._pool = SlotPool([self._build_bench(plan, spawner, cache) for plan in plans])
        self._checks = self._build_checks(spawner)
        if settings.metrics_bind is not None:
            self._stop_metrics = serve_metrics(settings.metrics_bind, self._describe)
        threading.Thread(target=self._await_stop, name="stopper", daemon=True).start()
        self._gpus.start()
        if self._checks is not None:
            self._checks.start()
        self._status.start()
        self._doctor.start()
        self._poller.start()

    def answer(self, hint: str | None) -> bool:
        """Claim and run attempts until no job is left.

        Args:
            hint: Job id from the doorbell message.

        Returns:
            False if no slot is free, so that another worker should answer.
        """
        if not self._pool.wait_for_free(BUSY_SECONDS):
            return False
        claimed = self._claim(hint)
        if claimed is NoClaim.BUSY:
            self._stopping.wait(BUSY_SECONDS)
            return False
        self._serve(claimed)
        return True

    def gpu_states(self) -> list[GpuState]:
        """Return every GPU of the host: facts, readings, its attempt and why it is excluded."""
        if self._gpus is None or self._park is None:
            return []
        park, newest = self._park, self._gpus.newest
        return [
            GpuState(
                key=key,
                facts=gpu.facts.model_copy(update={"telemetry": newest(key)}),
                attempt_id=park.find_attempt(key),
                excluded=park.find_exclusion(key),
            )
            for key, gpu in park.gpus.items()
        ]

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
        self._pool.wait_until_free()
        for slot in self._pool.slots:
            slot.bench.launcher.close()
        self._poller.join()
        if self._checks is not None:
            self._checks.stop()
        if self._doctor is not None:
            self._doctor.halt()
        if self._status is not None:
            self._status.halt()
        if self._stop_metrics is not None:
            self._stop_metrics()
        if self._gpus is not None:
            self._gpus.stop()
        if self._park is not None:
            self._park.close()
        self._client.close()
        if self._lock_file is not None:
            self._lock_file.close()

    def _describe(self) -> WorkerState:
        return WorkerState(
            worker_id=self._worker_id,
            gpus=self.gpu_states(),
            slots=self.num_slots,
            busy_slots=self._pool.num_busy,
            sampling_seconds=self._gpus.cost_seconds if self._gpus else 0.0,
        )

    def _build_checks(self, spawner: Spawner) -> GpuChecks | None:
        if self._park is None:
            return None
        tests = {
            bench.slot.gpu.key: SelfTest(
                self._settings,
                spawner,
                SOURCE_DIR,
                bench.launcher.trainer_environment,
                self._inventory.torch_version,
                self._inventory.hip_version,
            )
            for bench in (slot.bench for slot in self._pool.slots)
            if bench.slot.gpu is not None and self._settings.selftest_command
        }
        return GpuChecks(self._park, tests, on_change=self._heed_gpus)

    def _heed_gpus(self) -> None:
        """React to a GPU that was included or excluded: look for work and report the change."""
        self._wake.set()
        self._tell_status()

    def _tell_status(self) -> None:
        if self._status is not None:
            self._status.hurry()

    def _build_bench(self, plan: SlotPlan, spawner: Spawner, cache: DatasetCache) -> SlotResources:
        patching = Patching(self._settings, self._inventory)
        launcher = Launcher(self._settings, spawner, slot=plan, patching=patching)
        return SlotResources(
            self._settings, plan, launcher, cache, self._is_out_of_time, self._read_gpus_of
        )

    def _read_gpus_of(self, attempt_id: str) -> Sequence[GpuTelemetry | None]:
        if self._gpus is None or self._park is None:
            return []
        held = self._park.held
        return [self._gpus.newest(key) for key in sorted(held) if held[key] == attempt_id]

    def _is_out_of_time(self) -> bool:
        grace_seconds = self._settings.shutdown_grace_seconds + REPORT_GRACE_SECONDS
        return self._stop_at is not None and time.monotonic() > self._stop_at + grace_seconds

    def _await_stop(self) -> None:
        os.eventfd_read(self._stop_fd)
        log.info("shutting down")
        self._stop_at = time.monotonic()
        self._stopping.set()
        self._wake.set()
        self._pool.close()

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
                self._wake.wait(self._registration.poll_seconds)
            else:
                self._stopping.wait(backoff.next_seconds())

    def _poll_once(self) -> bool:
        """Claim until no job is left; return whether the service answered."""
        self._settings.alive_path.touch()
        if not self._registration.is_known:
            if not self._registration.greet(slots=self.num_slots):
                return False
            assert self._status is not None
            self._status.welcome()
        while isinstance(claimed := self._claim(hint=None), Claimed):
            name = claimed.claim.attempt_id
            threading.Thread(target=self._serve, args=(claimed,), name=name, daemon=True).start()
        return claimed is not NoClaim.UNANSWERED

    def _serve(self, claimed: Claimed | NoClaim) -> None:
        while isinstance(claimed, Claimed):
            try:
                self._run(claimed)
            finally:
                self._pool.give_back(*claimed.slots)
            claimed = self._claim(hint=None)

    def _run(self, claimed: Claimed) -> None:
        claim, slot, stop = claimed.claim, claimed.slots[0], StopSignal()
        self._pool.occupy(slot, stop)
        self._tell_status()
        with structlog.contextvars.bound_contextvars(
            job_id=claim.job_id, attempt_id=claim.attempt_id
        ):
            log.info("attempt starts", number=claim.number)
            try:
                client = self._client.attempt(claim)
                outcome = Attempt(claim, client, slot.bench, stop, claimed.grant).run()
                log.info("attempt ended", outcome=outcome)
            except Exception:  # the slot must serve the next job, whatever went wrong here
                log.exception("attempt failed; the service will notice when its lease expires")
            finally:
                self._pool.vacate(slot)
                self._tell_status()

    def _claim(self, hint: str | None) -> Claimed | NoClaim:
        """Ask for a job for all free slots, and free those that it does not need."""
        if self._stopping.is_set() or not self._registration.is_known:
            return NoClaim.NO_JOB
        with self._claiming:
            offers = offer_slots(self._pool.take_free(), self._park)
            claimed: Claimed | NoClaim = NoClaim.BUSY
            try:
                for offer in offers.ready:
                    offer.slot.bench.launcher.start_spare()
                    offer.slot.bench.launcher.start_export_spare()
                if offers.ready:
                    claim = self._registration.claim(offers, hint=hint)
                    if isinstance(claim, NoClaim):
                        claimed = claim
                    else:
                        claimed = offers.settle(claim, self._park)
            finally:
                kept = claimed.slots if isinstance(claimed, Claimed) else ()
                self._pool.give_back(*offers.let_go(kept))
        if claimed is NoClaim.UNANSWERED or not self._registration.is_known:
            self._wake.set()
        return claimed
