"""Whether a GPU can be used now: what its memory holds, and what took it out until when.

A reason that outlasts a job is kept in a file beside the GPU's lock, so that every worker of the
host leaves the GPU alone until it is well again.
"""

import fcntl
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from redkiln.failure import FailureCode
from redkiln.views.hardware import GpuExclusion, GpuFacts, GpuTelemetry
from worker.hardware.leases import make_shared_dir, open_shared

GIB = 1024**3
IDLE_BYTES = GIB // 2
IDLE_RATIO = 0.03
"""What driver and firmware may hold on a card that nobody uses; large cards keep more."""
DESKTOP_BYTES = 2 * GIB
DESKTOP_RATIO = 0.25
"""What a desktop may hold before a job waits: a compositor and a browser do take 1 to 2 GiB."""
HEADROOM_BYTES = GIB
HEADROOM_RATIO = 0.1
"""What a job leaves free on a card with a screen: without it the driver moves the desktop's buffers
in and out of the card, and the desktop stutters."""
MEMORY_CHECK_SECONDS = 15.0
TEST_CHECK_SECONDS = 60.0
MAX_TEST_CHECK_SECONDS = 3600.0
"""A self-test uses the GPU for a while, so each that fails doubles the pause to the next."""

Need = Literal["memory", "self_test"]


@dataclass(frozen=True)
class Memory:
    """How much of a GPU's memory is in use, by everybody."""

    used_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class Share:
    """How a GPU's memory is shared with what else runs on the machine.

    Attributes:
        allowed_bytes: use by others that a job puts up with.
        headroom_bytes: what a job leaves free beyond that.
        why: of the headroom, for people; empty where there is none.
    """

    allowed_bytes: int
    headroom_bytes: int = 0
    why: str = ""


class GpuRecord(BaseModel):
    """What is remembered of a GPU from one job, and one worker, to the next.

    Attributes:
        needs: what ends the exclusion.
        limit_bytes: use of its memory at which it is given back, where that is what it needs.
        checked_at: when it was looked at last.
        num_failed: looks in a row that changed nothing.
        tested: versions under which it passed its self-test, since it was last in doubt; to each
            what it computes wrongly beside what it does right: a precision, or `fused_attention`,
            with the numbers. Jobs do without. Workers of one host may have several versions.
    """

    excluded: GpuExclusion | None = None
    needs: Need | None = None
    limit_bytes: int | None = None
    checked_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    num_failed: int = 0
    tested: dict[str, dict[str, str]] = Field(default_factory=dict)

    def exclude(
        self, why: GpuExclusion, *, needs: Need, limit_bytes: int | None = None
    ) -> "GpuRecord":
        """The record of the GPU once it is taken out."""
        is_again = self.excluded is not None and self.needs == needs
        return GpuRecord(
            excluded=why,
            needs=needs,
            limit_bytes=limit_bytes,
            num_failed=self.num_failed + 1 if is_again else 0,
            tested={} if needs == "self_test" else self.tested,
        )

    def readmit(self) -> "GpuRecord":
        """The record of the GPU once it can be used again."""
        return GpuRecord(tested=self.tested)

    def admit(self, versions: str, *, denied: Mapping[str, str]) -> "GpuRecord":
        """The record of the GPU once it has passed its self-test under these versions."""
        return GpuRecord(tested={**self.tested, versions: dict(denied)})


class HealthFolder:
    """The records of a host's GPUs."""

    def __init__(self, root: Path) -> None:
        self._root = root
        make_shared_dir(root)

    def load(self, key: str) -> GpuRecord:
        """What is remembered of a GPU; nothing, if its file cannot be read."""
        try:
            descriptor = os.open(self._path(key), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return GpuRecord()
        with os.fdopen(descriptor, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            try:
                return GpuRecord.model_validate_json(file.read())
            except ValidationError:
                return GpuRecord()

    def save(self, key: str, record: GpuRecord) -> None:
        """Remember it.

        Raises:
            OSError: it cannot be written.
        """
        # In place: in a folder with the sticky bit another user's file cannot be replaced.
        with os.fdopen(open_shared(self._path(key)), "rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(record.model_dump_json(indent=2).encode() + b"\n")
            file.truncate()

    def _path(self, key: str) -> Path:
        return self._root / f"{key}.json"


def read_memory(facts: GpuFacts, telemetry: GpuTelemetry | None) -> Memory | None:
    """A GPU's memory; of an APU what it may take of the host's (GTT), which is approximate."""
    if telemetry is None:
        return None
    used, total = telemetry.vram_used_bytes, telemetry.vram_total_bytes
    if facts.is_apu:
        used, total = telemetry.gtt_used_bytes, telemetry.gtt_total_bytes
    return None if used is None or not total else Memory(used, total)


def plan_share(memory: Memory, *, drives_display: bool, is_apu: bool) -> Share:
    """How a job shares a GPU's memory with a desktop, if there is one.

    Args:
        memory: of the GPU.
        drives_display: whether a screen is connected to it.
        is_apu: whether its memory is the host's, which others always use.
    """
    total = memory.total_bytes
    if not drives_display and not is_apu:
        return Share(max(IDLE_BYTES, int(total * IDLE_RATIO)))
    headroom = min(HEADROOM_BYTES, int(total * HEADROOM_RATIO))
    cause = "it drives a screen" if drives_display else "its memory is also the host's"
    return Share(
        max(DESKTOP_BYTES, int(total * DESKTOP_RATIO)),
        headroom,
        f"{format_bytes(headroom)} of it stay free because {cause}",
    )


def limit_of(memory: Memory, share: Share) -> int | None:
    """What a job may take; None where nothing needs to stay free."""
    if not share.headroom_bytes:
        return None
    return max(0, memory.total_bytes - memory.used_bytes - share.headroom_bytes)


def is_held(memory: Memory | None, *, limit_bytes: int | None) -> bool:
    """Whether more of the memory is in use than may be; False where it cannot be known."""
    return memory is not None and limit_bytes is not None and memory.used_bytes > limit_bytes


def exclude_held(before: Memory | None, now: Memory, *, limit_bytes: int) -> GpuExclusion:
    """The reason of a GPU whose memory is in use; `before` its job, if it had one."""
    text = f"{format_bytes(now.used_bytes)} of {format_bytes(now.total_bytes)} are in use"
    if before is not None:
        text += f" after a job, {format_bytes(before.used_bytes)} were before it"
    wanted = f"it is used again at {format_bytes(limit_bytes)} or less"
    return GpuExclusion(
        code="memory_held",
        message=f"{text}; {wanted}. End the programs that hold it (fuser -v /dev/dri/renderD*).",
    )


def exclude_after(code: FailureCode | None) -> GpuExclusion | None:
    """Why a GPU is taken out after a training that ended like this."""
    if code == FailureCode.GPU_FAULT:
        text = "It faulted or hung under a job; the driver's log (dmesg) says more."
        return GpuExclusion(code="faulted", message=f"{text} It is used again after a self-test.")
    if code == FailureCode.NO_PROGRESS:
        text = "A job on it made no progress and was killed."
        return GpuExclusion(code="hung", message=f"{text} It is used again after a self-test.")
    return None


def is_due(record: GpuRecord, *, now: datetime) -> bool:
    """Whether an excluded GPU should be looked at again."""
    pause = MEMORY_CHECK_SECONDS
    if record.needs == "self_test":
        pause = min(TEST_CHECK_SECONDS * 2**record.num_failed, MAX_TEST_CHECK_SECONDS)
    return record.excluded is not None and now - record.checked_at >= timedelta(seconds=pause)


def format_bytes(count: int) -> str:
    """As people write it: `1.5 GiB`."""
    return f"{count / GIB:.1f} GiB"


def name_versions(*parts: str | None) -> str:
    """Under what a self-test counts: torch's, ROCm's and the driver's version."""
    return " ".join(part or "none" for part in parts)
