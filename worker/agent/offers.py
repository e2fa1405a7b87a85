"""What a worker offers when it asks for a job, and which of it the claimed job uses."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Literal

from redkiln.failure import FailureCode, JobFailure
from redkiln.protocol import ClaimResponse
from redkiln.spec.job_spec import JobSpec
from redkiln.spec.problems import SpecError
from redkiln.tasks import parse_spec
from worker.agent.gpus.engine_devices import ENGINE
from worker.agent.gpus.engine_pool import EnginePool
from worker.agent.gpus.host_gpus import HostGpu
from worker.agent.gpus.pool import GpuAllocation, GpuPool
from worker.agent.slots import Slot
from worker.hardware.choose import choose_gpus
from worker.hardware.leases import GpuLease, release


class NoClaim(Enum):
    """Why no attempt can run."""

    NO_JOB = auto()
    BUSY = auto()
    UNANSWERED = auto()


@dataclass(frozen=True)
class Claimed:
    """An attempt with its slots and GPUs.

    Attributes:
        spec: The claim's spec, or why this worker cannot read it.
        slots: The slots that it occupies; the first one's launcher starts its children.
    """

    claim: ClaimResponse
    spec: JobSpec | JobFailure
    slots: Sequence[Slot]
    allocation: GpuAllocation


@dataclass(frozen=True)
class Offer:
    """A free slot, with the lease of its GPU if it has one.

    Attributes:
        engine: Leases for a job of another engine than torch; None if the slot has no device for
            it, or another job has it.
    """

    slot: Slot
    lease: GpuLease | None = None
    engine: list[GpuLease] | None = None

    @property
    def gpu(self) -> HostGpu | None:
        """The slot's own GPU."""
        return self.slot.resources.slot.gpu


@dataclass
class Offers:
    """All free slots. Another worker cannot offer the GPUs that are leased here."""

    ready: list[Offer] = field(default_factory=list)
    busy: list[Slot] = field(default_factory=list)

    @property
    def kinds(self) -> list[Literal["gpu", "cpu"]]:
        """Kinds of the free slots, without duplicates."""
        kinds: set[Literal["gpu", "cpu"]] = {offer.slot.resources.slot.kind for offer in self.ready}
        return sorted(kinds)

    @property
    def arches(self) -> list[str]:
        """Architectures of the free GPUs, one entry for each GPU."""
        return [offer.gpu.arch or "" for offer in self.ready if offer.gpu is not None]

    @property
    def busy_engines(self) -> list[str]:
        """Engines that no job can use now."""
        has_engine = any(offer.slot.resources.slot.engine is not None for offer in self.ready)
        is_free = any(offer.engine is not None for offer in self.ready)
        return [ENGINE] if has_engine and not is_free else []

    def settle(
        self,
        claim: ClaimResponse,
        pool: GpuPool | None,
        engine_pool: EnginePool | None = None,
    ) -> Claimed:
        """Choose the slots and GPUs for a claimed attempt."""
        spec = read_spec(claim)
        if not isinstance(spec, JobFailure) and spec.resources.engine == ENGINE:
            return self._give_engine(claim, spec, engine_pool)
        with_gpu = [offer for offer in self.ready if offer.gpu is not None]
        if isinstance(spec, JobFailure) or not with_gpu or pool is None:
            return Claimed(claim, spec, [self.ready[0].slot], GpuAllocation())
        chosen, reason = choose_offers(
            with_gpu, count=spec.resources.gpus, arches=spec.resources.arch
        )
        if not chosen:
            # Happens only if an earlier answer was lost: fewer GPUs are free by now.
            shortage = f"the worker no longer has {spec.resources.gpus} such GPUs free"
            return Claimed(claim, spec, [self.ready[0].slot], GpuAllocation(shortage=shortage))
        gpus = [offer.gpu for offer in chosen if offer.gpu is not None]
        leases = [offer.lease for offer in chosen if offer.lease is not None]
        pool.mark(leases, claim.attempt_id)
        return Claimed(
            claim, spec, [offer.slot for offer in chosen], GpuAllocation(pool, gpus, leases, reason)
        )

    def let_go(self, kept: Collection[Slot], given: Collection[GpuLease] = ()) -> list[Slot]:
        """Release all leases that were not given to a job; return the slots that were not kept.

        A kept slot may have a lease that its job does not get, because the job ends at once.
        """
        others = [offer for offer in self.ready if not any(offer.slot is slot for slot in kept)]
        for offer in self.ready:
            if offer.lease is not None and not any(offer.lease is lease for lease in given):
                offer.lease.close()
            if not any(lease is one for lease in offer.engine or () for one in given):
                release(offer.engine or ())
        return [*(offer.slot for offer in others), *self.busy]

    def _give_engine(self, claim: ClaimResponse, spec: JobSpec, pool: EnginePool | None) -> Claimed:
        """Choose the first slot whose device no other job has."""
        for offer in self.ready:
            if offer.engine is not None:
                if pool is not None:
                    pool.mark(offer.engine, claim.attempt_id)
                return Claimed(claim, spec, [offer.slot], GpuAllocation(leases=offer.engine))
        # Happens only if an earlier answer was lost: another job has the GPU by now.
        shortage = f"another {ENGINE} job uses this host's GPU"
        return Claimed(claim, spec, [self.ready[0].slot], GpuAllocation(shortage=shortage))


def read_spec(claim: ClaimResponse) -> JobSpec | JobFailure:
    """Parse the spec of a claim, or return the failure of a job that this worker cannot read."""
    try:
        return parse_spec(claim.spec)
    except SpecError as error:
        text = f"this worker cannot read the job spec: {error}"
        return JobFailure.of(FailureCode.BAD_INPUT, text)


def offer_slots(
    slots: Sequence[Slot], pool: GpuPool | None, engine_pool: EnginePool | None = None
) -> Offers:
    """Lease the GPUs of free slots, except those that cannot be used or are taken."""
    offers = Offers()
    for slot in slots:
        gpu = slot.resources.slot.gpu
        lease = pool.take(gpu.key) if gpu is not None and pool is not None else None
        if gpu is not None and lease is None:
            offers.busy.append(slot)
        else:
            offers.ready.append(Offer(slot, lease, _take_engine(slot, engine_pool)))
    return offers


def _take_engine(slot: Slot, pool: EnginePool | None) -> list[GpuLease] | None:
    place = slot.resources.slot.engine
    if place is None or not place.keys:
        return None if place is None else []
    return None if pool is None else pool.take(place.keys)


def choose_offers(
    offers: Sequence[Offer], *, count: int, arches: Collection[str]
) -> tuple[list[Offer], str]:
    """Choose the best offers of one architecture, and say why; none if there are too few."""
    alike: dict[str, list[Offer]] = defaultdict(list)
    for offer in offers:
        if offer.gpu is not None and (not arches or offer.gpu.arch in arches):
            alike[offer.gpu.arch or ""].append(offer)
    for group in alike.values():
        by_key = {offer.gpu.key: offer for offer in group if offer.gpu is not None}
        facts = {offer.gpu.key: offer.gpu.facts for offer in group if offer.gpu is not None}
        screens = [key for key, each in facts.items() if each.drives_display]
        choice = choose_gpus(facts, count, with_display=screens)
        if choice is not None:
            return [by_key[key] for key in choice.keys], choice.reason
    return [], ""
