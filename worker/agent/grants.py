"""GPUs for attempts: leased together, waited for, looked at before and after, and given back."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from redkiln.failure import FailureCode, JobFailure
from redkiln.hardware import GpuExclusion, GpuFacts, GpuTelemetry
from worker.agent.host_gpus import HostGpu, show_gpus
from worker.agent.stopping import StopSignal
from worker.hardware.cards import find_device_dir
from worker.hardware.health import (
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
from worker.hardware.sysfs import read_integer
from worker.settings import WorkerSettings

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
"""How often a waiting job looks whether the memory is free."""
GIVE_BACK_SECONDS = 5.0
"""What the driver is given to take a dead process's memory back."""


class GpuBusy(Exception):  # noqa: N818  # it is a decision
    """The attempt's GPUs could not be had in time; `failure` gives the job back."""

    def __init__(self, message: str) -> None:
        self.failure = JobFailure.of(FailureCode.GPU_BUSY, message)
        super().__init__(message)


class GpuPark:
    """The GPUs of this host as this worker leases and excludes them.

    Args:
        gpus: all of them, usable or not.
        versions: under which each has to have passed its self-test, by key; without an entry a
            GPU needs none.
    """

    def __init__(
        self, gpus: Sequence[HostGpu], settings: WorkerSettings, *, worker_id: str
    ) -> None:
        self.gpus = {gpu.key: gpu for gpu in gpus}
        self.versions: dict[str, str] = {}
        self._settings = settings
        self._worker_id = worker_id
        self._leases = LeaseFolder(settings.lock_dir)
        self._health = HealthFolder(settings.lock_dir)
        self._held: dict[str, str] = {}

    @property
    def health(self) -> HealthFolder:
        """What is remembered of each GPU."""
        return self._health

    @property
    def held(self) -> Mapping[str, str]:
        """Attempts of this worker by the key of the GPU that they hold."""
        return dict(self._held)

    def find_exclusion(self, key: str) -> GpuExclusion | None:
        """Why a GPU cannot be used now; None if it can, or somebody uses it."""
        gpu = self.gpus[key]
        if gpu.excluded is not None:
            return gpu.excluded
        record = self._health.load(key)
        if record.excluded is not None:
            return record.excluded
        if key in self.versions and self.versions[key] not in record.tested:
            text = "Its self-test has not passed yet with these versions; it is run now."
            return GpuExclusion(code="self_test_running", message=text)
        return None

    def find_denied(self, key: str) -> dict[str, str]:
        """What its self-test found a GPU to compute wrongly beside what it does right."""
        return self._health.load(key).tested.get(self.versions.get(key, ""), {})

    def find_attempt(self, key: str) -> str | None:
        """The attempt that holds a GPU, of this worker or of another one of the host."""
        if (ours := self._held.get(key)) is not None:
            return ours
        holder = self._leases.find_holder(key)
        return holder.attempt_id if holder else None

    def take(self, key: str) -> GpuLease | None:
        """Lease a GPU, if it can be used now."""
        if self.find_exclusion(key):
            return None
        lease = self.take_any(key)
        if lease is not None and self.find_exclusion(key):
            # Whoever had it took it out, and gave it back, since it was looked at.
            lease.close()
            return None
        return lease

    def take_any(self, key: str) -> GpuLease | None:
        """Lease a GPU, excluded or not; for whoever tests it."""
        try:
            taken = self._leases.take([key])
        except OSError as error:
            log.error("no lease; see REDKILN_LOCK_DIR", gpu=key, error=str(error))
            return None
        if taken is None:
            return None
        self._describe(taken[0])
        return taken[0]

    def mark(self, leases: Iterable[GpuLease], attempt_id: str) -> None:
        """Say for which attempt these are held."""
        for lease in leases:
            self._describe(lease, attempt_id)
            self._held[lease.key] = attempt_id

    def unmark(self, keys: Iterable[str]) -> None:
        """The attempt holds these no longer."""
        for key in keys:
            self._held.pop(key, None)

    def exclude(
        self, key: str, why: GpuExclusion, *, needs: Need, limit_bytes: int | None = None
    ) -> None:
        """Take a GPU out, for every worker of the host, until it is well again."""
        log.warning("gpu taken out", gpu=key, code=why.code, reason=why.message)
        record = self._health.load(key).exclude(why, needs=needs, limit_bytes=limit_bytes)
        self._health.save(key, record)

    def measure(self, key: str) -> Memory | None:
        """A GPU's memory now; None where the driver does not tell."""
        facts = self.gpus[key].facts
        return read_memory(facts, _read_memory_files(facts, self._settings.drm_dir))

    def find_sensor_dir(self, key: str) -> Path | None:
        """Where the driver's files on a GPU are; None where its card is not known."""
        return find_device_dir(self.gpus[key].facts.card, drm_dir=self._settings.drm_dir)

    def share_of(self, key: str, memory: Memory) -> Share:
        """How a job shares a GPU's memory with what else runs on it."""
        facts = self.gpus[key].facts
        return plan_share(
            memory, drives_display=bool(facts.drives_display), is_apu=bool(facts.is_apu)
        )

    def close(self) -> None:
        """Let go of the folder."""
        self._leases.close()

    def _describe(self, lease: GpuLease, attempt_id: str | None = None) -> None:
        try:
            lease.describe(Holder(worker_id=self._worker_id, attempt_id=attempt_id))
        except OSError as error:  # a full disk: the lock alone decides
            log.warning("the lease does not say whose it is", gpu=lease.key, error=str(error))


@dataclass
class Grant:
    """The GPUs of one attempt, from its claim to the end of its training; none on a CPU.

    Attributes:
        reason: why these, for people.
        shortage: why there are too few; the attempt gives its job back.
    """

    park: GpuPark | None = None
    gpus: Sequence[HostGpu] = ()
    leases: Sequence[GpuLease] = ()
    reason: str = ""
    shortage: str = ""
    clock: Callable[[], float] = time.monotonic
    _before: dict[str, Memory] = field(default_factory=dict)

    @property
    def descriptors(self) -> list[int]:
        """What a child has to inherit so that the lease lives as long as it does."""
        return [lease.fileno() for lease in self.leases]

    @property
    def mask(self) -> dict[str, str]:
        """The variable that shows a child these GPUs and no other."""
        return show_gpus(self.gpus)

    @property
    def sensor_dirs(self) -> list[str]:
        """Where the driver's files on these GPUs are, of those whose card is known."""
        if self.park is None:
            return []
        found = [self.park.find_sensor_dir(gpu.key) for gpu in self.gpus]
        return [str(folder) for folder in found if folder is not None]

    @property
    def denied(self) -> dict[str, str]:
        """What one of these GPUs computes wrongly, with the numbers; the job does without."""
        if self.park is None:
            return {}
        found = [self.park.find_denied(gpu.key) for gpu in self.gpus]
        return {name: why for denied in found for name, why in denied.items()}

    def wait_until_usable(
        self, *, say: Callable[[str], None], stop: StopSignal, patience_seconds: float
    ) -> int | None:
        """Wait while other programs hold the memory, saying so.

        Returns:
            What a job may take of each GPU's memory; None for all that there is.

        Raises:
            GpuBusy: they held it for too long, or there are too few GPUs.
            Stopped: the attempt was asked to stop.
        """
        if self.shortage:
            raise GpuBusy(self.shortage)
        if self.reason:
            say(self.reason)
        limits = [self._wait_for(gpu.key, say, stop, patience_seconds) for gpu in self.gpus]
        return min((limit for limit in limits if limit is not None), default=None)

    def finish(self, code: FailureCode | None) -> None:
        """The training has ended: look at the GPUs and give them back.

        Args:
            code: why it failed, if it did.
        """
        why = exclude_after(code)
        for gpu in self.gpus:
            assert self.park is not None, "GPUs come from a park"
            if why is not None and gpu.key in self.park.versions:  # else nobody would test it
                self.park.exclude(gpu.key, why, needs="self_test")
            elif gpu.key in self._before:
                self._check_memory(self.park, gpu.key)
        self.close()

    def close(self) -> None:
        """Give the GPUs back; they are free when no child holds them either."""
        if self.park is not None:
            self.park.unmark(gpu.key for gpu in self.gpus)
        release(self.leases)

    def _wait_for(
        self, key: str, say: Callable[[str], None], stop: StopSignal, patience_seconds: float
    ) -> int | None:
        assert self.park is not None, "GPUs come from a park"
        memory = self.park.measure(key)
        if memory is None:
            return None
        share = self.park.share_of(key, memory)
        began, has_waited = self.clock(), False
        while is_held(memory, limit_bytes=share.allowed_bytes):
            why = exclude_held(None, memory, limit_bytes=share.allowed_bytes)
            if self.clock() - began >= patience_seconds:
                self.park.exclude(key, why, needs="memory", limit_bytes=share.allowed_bytes)
                raise GpuBusy(f"GPU {key}: {why.message}")
            if not has_waited:
                say(f"waits for the memory of GPU {key}: {why.message}")
            has_waited = True
            stop.wait(min(LOOK_SECONDS, patience_seconds))
            memory = self.park.measure(key) or memory
        if has_waited:
            say(f"the memory of GPU {key} is free")
        if share.why:
            say(f"GPU {key}: {share.why}")
        self._before[key] = memory
        return limit_of(memory, share)

    def _check_memory(self, park: GpuPark, key: str) -> None:
        before = self._before[key]
        limit_bytes = before.used_bytes + park.share_of(key, before).allowed_bytes
        deadline = self.clock() + GIVE_BACK_SECONDS
        while is_held(now := park.measure(key), limit_bytes=limit_bytes):
            if self.clock() >= deadline:
                assert now is not None, "what is held was read"
                why = exclude_held(before, now, limit_bytes=limit_bytes)
                park.exclude(key, why, needs="memory", limit_bytes=limit_bytes)
                return
            time.sleep(0.1)


def _read_memory_files(facts: GpuFacts, drm_dir: Path) -> GpuTelemetry | None:
    """The four counts alone: the other sensors go through the card's firmware."""
    device_dir = find_device_dir(facts.card, drm_dir=drm_dir)
    if device_dir is None:
        return None
    names = ("vram_total", "vram_used", "gtt_total", "gtt_used")
    counts = {f"{name}_bytes": read_integer(f"{device_dir}/mem_info_{name}") for name in names}
    return GpuTelemetry.model_validate(counts)
