"""GPUs for attempts: lease them, wait for their memory, check it afterwards, and release them."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from redkiln.failure import FailureCode, JobFailure
from redkiln.views.hardware import OWNER_EXCLUSION, GpuExclusion, GpuFacts, GpuTelemetry
from worker.agent.gpus.host_gpus import HostGpu, show_gpus
from worker.agent.stopping import StopSignal
from worker.hardware.facts.cards import find_device_dir
from worker.hardware.facts.sysfs import read_integer
from worker.hardware.health.health import (
    HealthFolder,
    Memory,
    Need,
    Share,
    exclude_after,
    exclude_held,
    is_held,
    limit_of,
    plan_share,
    read_memory,
)
from worker.hardware.leases import GpuLease, Holder, LeaseFolder, release
from worker.settings import WorkerSettings

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
"""How often a waiting job checks whether the memory is free."""
GIVE_BACK_SECONDS = 5.0
"""How long the driver may take to reclaim a dead process's memory."""


class GpuBusy(Exception):  # noqa: N818  # it is a decision
    """The attempt's GPUs did not become usable in time; `failure` returns the job to the queue."""

    def __init__(self, message: str) -> None:
        self.failure = JobFailure.of(FailureCode.GPU_BUSY, message)
        super().__init__(message)


class GpuPool:
    """The GPUs of this host: this worker leases and excludes them.

    Args:
        gpus: All GPUs of the host, usable or not.
        versions: The versions with which each GPU must have passed its self-test, by key; a GPU
            without an entry needs no test.
        announced: How long the self-test of each GPU may take, by key.
    """

    def __init__(
        self, gpus: Sequence[HostGpu], settings: WorkerSettings, *, worker_id: str
    ) -> None:
        self.gpus = {gpu.key: gpu for gpu in gpus}
        self.versions: dict[str, str] = {}
        self.announced: dict[str, str] = {}
        self._settings = settings
        self._worker_id = worker_id
        self._leases = LeaseFolder(settings.lock_dir)
        self._health = HealthFolder(settings.lock_dir)
        self._held: dict[str, str] = {}
        self._kept_free: frozenset[str] = frozenset()
        self._kept_leases: dict[str, GpuLease] = {}

    @property
    def health(self) -> HealthFolder:
        """The health record of each GPU."""
        return self._health

    @property
    def held(self) -> Mapping[str, str]:
        """The attempt of this worker that holds each GPU, by the GPU's key."""
        return dict(self._held)

    def find_exclusion(self, key: str) -> GpuExclusion | None:
        """Return why a GPU cannot be used now; None if it can, or if an attempt uses it."""
        gpu = self.gpus[key]
        if gpu.excluded is not None:
            return gpu.excluded
        if key in self._kept_free:
            text = "Its owner keeps it free of jobs; give it back: redkiln give-back."
            return GpuExclusion(code=OWNER_EXCLUSION, message=text)
        record = self._health.load(key)
        if record.excluded is not None:
            return record.excluded
        if key in self.versions and self.versions[key] not in record.tested:
            text = "It has not passed its self-test with these versions yet; the test runs now. "
            told = (text + self.announced.get(key, "")).strip()
            return GpuExclusion(code="self_test_running", message=told)
        return None

    def find_denied(self, key: str) -> dict[str, str]:
        """Return what a GPU's self-test found to compute wrongly on an otherwise usable GPU."""
        return self._health.load(key).tested.get(self.versions.get(key, ""), {})

    def find_attempt(self, key: str) -> str | None:
        """Return the attempt that holds a GPU, of this worker or of another one on the host."""
        if (ours := self._held.get(key)) is not None:
            return ours
        holder = self._leases.find_holder(key)
        return holder.attempt_id if holder else None

    def take(self, key: str) -> GpuLease | None:
        """Lease a GPU if it can be used now; None if it cannot."""
        if self.find_exclusion(key):
            return None
        lease = self.take_any(key)
        if lease is not None and self.find_exclusion(key):
            # Its last holder excluded it and released it between our check and our lease.
            lease.close()
            return None
        return lease

    def take_any(self, key: str) -> GpuLease | None:
        """Lease a GPU, excluded or not, in order to test it."""
        try:
            taken = self._leases.take([key])
        except OSError as error:
            log.error("cannot lease a gpu; see REDKILN_LOCK_DIR", gpu=key, error=str(error))
            return None
        if taken is None:
            return None
        self._describe(taken[0])
        return taken[0]

    def mark(self, leases: Iterable[GpuLease], attempt_id: str) -> None:
        """Record the attempt for which these leases are held."""
        for lease in leases:
            self._describe(lease, attempt_id)
            self._held[lease.key] = attempt_id

    def unmark(self, keys: Iterable[str]) -> None:
        """Forget the attempt that held these GPUs."""
        for key in keys:
            self._held.pop(key, None)

    def keep_free(self, keys: Iterable[str]) -> bool:
        """Give no job to these GPUs, and to no others that were kept free before.

        The pool leases them once they are free, so that other workers of the host stay away, too.

        Returns:
            Whether the kept GPUs have changed.
        """
        wanted = frozenset(keys) & self.gpus.keys()
        has_changed, self._kept_free = wanted != self._kept_free, wanted
        for key in self._kept_leases.keys() - wanted:
            self._kept_leases.pop(key).close()
        for key in wanted - self._kept_leases.keys() - self._held.keys():
            lease = self.take_any(key)
            if lease is not None:
                self._kept_leases[key] = lease
        return has_changed

    def exclude(
        self, key: str, why: GpuExclusion, *, needs: Need, limit_bytes: int | None = None
    ) -> None:
        """Exclude a GPU, for every worker of the host, until it recovers."""
        log.warning("gpu excluded", gpu=key, code=why.code, reason=why.message)
        record = self._health.load(key).exclude(why, needs=needs, limit_bytes=limit_bytes)
        self._health.save(key, record)

    def measure(self, key: str) -> Memory | None:
        """Read a GPU's memory use; None if the driver does not report it."""
        facts = self.gpus[key].facts
        return read_memory(facts, _read_memory_files(facts, self._settings.drm_dir))

    def find_sensor_dir(self, key: str) -> Path | None:
        """Return the folder of the driver's files for a GPU; None if its card is unknown."""
        return find_device_dir(self.gpus[key].facts.card, drm_dir=self._settings.drm_dir)

    def share_of(self, key: str, memory: Memory) -> Share:
        """Plan how a job shares a GPU's memory with the other programs on it."""
        facts = self.gpus[key].facts
        return plan_share(
            memory, drives_display=bool(facts.drives_display), is_apu=bool(facts.is_apu)
        )

    def close(self) -> None:
        """Release the kept GPUs, and close the lease folder."""
        self.keep_free(())
        self._leases.close()

    def _describe(self, lease: GpuLease, attempt_id: str | None = None) -> None:
        try:
            lease.describe(Holder(worker_id=self._worker_id, attempt_id=attempt_id))
        except OSError as error:  # a full disk, for instance; only the lock itself matters
            log.warning("could not write the lease's holder", gpu=lease.key, error=str(error))


@dataclass
class GpuAllocation:
    """The GPUs of one attempt from its claim to the end of its training; none on a CPU.

    Attributes:
        reason: Why these GPUs were chosen, for people to read.
        shortage: Why there are too few; the attempt then returns its job to the queue.
    """

    pool: GpuPool | None = None
    gpus: Sequence[HostGpu] = ()
    leases: Sequence[GpuLease] = ()
    reason: str = ""
    shortage: str = ""
    clock: Callable[[], float] = time.monotonic
    _before: dict[str, Memory] = field(default_factory=dict)

    @property
    def descriptors(self) -> list[int]:
        """Descriptors that a child must inherit so that the leases last as long as it does."""
        return [lease.fileno() for lease in self.leases]

    @property
    def mask(self) -> dict[str, str]:
        """The variable that shows a child these GPUs and no others."""
        return show_gpus(self.gpus)

    @property
    def sensor_dirs(self) -> list[str]:
        """Folders of the driver's files for those of these GPUs whose card is known."""
        if self.pool is None:
            return []
        found = [self.pool.find_sensor_dir(gpu.key) for gpu in self.gpus]
        return [str(folder) for folder in found if folder is not None]

    @property
    def denied(self) -> dict[str, str]:
        """What one of these GPUs computes wrongly, with the numbers; the job must not use it."""
        if self.pool is None:
            return {}
        found = [self.pool.find_denied(gpu.key) for gpu in self.gpus]
        return {name: why for denied in found for name, why in denied.items()}

    def wait_until_usable(
        self, *, say: Callable[[str], None], stop: StopSignal, patience_seconds: float
    ) -> int | None:
        """Wait while other programs hold the GPUs' memory, and report the wait.

        Returns:
            Bytes of each GPU's memory that the job may use; None: no limit.

        Raises:
            GpuBusy: Other programs held the memory for too long, or there are too few GPUs.
            Stopped: The attempt was asked to stop.
        """
        if self.shortage:
            raise GpuBusy(self.shortage)
        if self.reason:
            say(self.reason)
        limits = [self._wait_for(gpu.key, say, stop, patience_seconds) for gpu in self.gpus]
        return min((limit for limit in limits if limit is not None), default=None)

    def finish(self, code: FailureCode | None) -> None:
        """Check the GPUs after training has ended, and release them.

        Args:
            code: Why the training failed; None if it did not.
        """
        why = exclude_after(code)
        for gpu in self.gpus:
            assert self.pool is not None, "GPUs come from a pool"
            if why is not None and gpu.key in self.pool.versions:  # otherwise nothing would test it
                self.pool.exclude(gpu.key, why, needs="self_test")
            elif gpu.key in self._before:
                self._check_memory(self.pool, gpu.key)
        self.close()

    def close(self) -> None:
        """Release the GPUs; each becomes free once no child holds its lease either."""
        if self.pool is not None:
            self.pool.unmark(gpu.key for gpu in self.gpus)
        release(self.leases)

    def _wait_for(
        self, key: str, say: Callable[[str], None], stop: StopSignal, patience_seconds: float
    ) -> int | None:
        assert self.pool is not None, "GPUs come from a pool"
        memory = self.pool.measure(key)
        if memory is None:
            return None
        share = self.pool.share_of(key, memory)
        began, has_waited = self.clock(), False
        while is_held(memory, limit_bytes=share.allowed_bytes):
            why = exclude_held(None, memory, limit_bytes=share.allowed_bytes)
            if self.clock() - began >= patience_seconds:
                self.pool.exclude(key, why, needs="memory", limit_bytes=share.allowed_bytes)
                raise GpuBusy(f"GPU {key}: {why.message}")
            if not has_waited:
                say(f"waiting for the memory of GPU {key}: {why.message}")
            has_waited = True
            stop.wait(min(LOOK_SECONDS, patience_seconds))
            memory = self.pool.measure(key) or memory
        if has_waited:
            say(f"the memory of GPU {key} is free now")
        if share.why:
            say(f"GPU {key}: {share.why}")
        self._before[key] = memory
        return limit_of(memory, share)

    def _check_memory(self, pool: GpuPool, key: str) -> None:
        before = self._before[key]
        limit_bytes = before.used_bytes + pool.share_of(key, before).allowed_bytes
        deadline = self.clock() + GIVE_BACK_SECONDS
        while is_held(now := pool.measure(key), limit_bytes=limit_bytes):
            if self.clock() >= deadline:
                assert now is not None, "memory that is held was measured"
                why = exclude_held(before, now, limit_bytes=limit_bytes)
                pool.exclude(key, why, needs="memory", limit_bytes=limit_bytes)
                return
            time.sleep(0.1)


def _read_memory_files(facts: GpuFacts, drm_dir: Path) -> GpuTelemetry | None:
    """Read only the four memory counts; the other sensors would query the card's firmware."""
    device_dir = find_device_dir(facts.card, drm_dir=drm_dir)
    if device_dir is None:
        return None
    names = ("vram_total", "vram_used", "gtt_total", "gtt_used")
    counts = {f"{name}_bytes": read_integer(f"{device_dir}/mem_info_{name}") for name in names}
    return GpuTelemetry.model_validate(counts)
