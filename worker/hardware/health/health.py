"""Whether a GPU can be used now: the use of its memory, and reasons that exclude it.

A reason that outlasts a job is kept in a file next to the GPU's lock, so that no worker of the
host uses the GPU until it has recovered.
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
"""What driver and firmware may hold on an unused card; large cards hold more."""
DESKTOP_BYTES = 2 * GIB
DESKTOP_RATIO = 0.25
"""What a desktop may hold before a job waits; a compositor and a browser use 1 to 2 GiB."""
HEADROOM_BYTES = GIB
HEADROOM_RATIO = 0.1
"""What a job leaves free on a card with a screen. Without it the driver moves the desktop's buffers
to main memory and back, and the desktop stutters."""
MEMORY_CHECK_SECONDS = 15.0
TEST_CHECK_SECONDS = 60.0
MAX_TEST_CHECK_SECONDS = 3600.0
"""A self-test uses the GPU for a while, so each failure doubles the pause before the next one."""

Need = Literal["memory", "self_test"]


@dataclass(frozen=True)
class Memory:
    """How much of a GPU's memory all programs use."""

    used_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class Share:
    """How a job shares a GPU's memory with other programs on the machine.

    Attributes:
        allowed_bytes: Memory use of other programs that a job tolerates.
        headroom_bytes: Memory that a job leaves free in addition.
        why: Reason for the headroom, for people; empty without headroom.
    """

    allowed_bytes: int
    headroom_bytes: int = 0
    why: str = ""


class GpuRecord(BaseModel):
    """What is recorded about a GPU between jobs and between workers.

    Attributes:
        needs: Event that ends the exclusion.
        limit_bytes: Memory use below which the GPU is included again, if it waits for memory.
        checked_at: Time of the last check.
        num_failed: Consecutive checks that changed nothing.
        tested: Versions with which it has passed its self-test since it was last in doubt. The
            value lists what it still computes wrongly: a precision, or `fused_attention`, with the
            numbers; jobs must not use it. Workers of one host may have different versions.
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
        """Return the record of the GPU after it is excluded."""
        is_again = self.excluded is not None and self.needs == needs
        return GpuRecord(
            excluded=why,
            needs=needs,
            limit_bytes=limit_bytes,
            num_failed=self.num_failed + 1 if is_again else 0,
            tested={} if needs == "self_test" else self.tested,
        )

    def readmit(self) -> "GpuRecord":
        """Return the record of the GPU after it is included again."""
        return GpuRecord(tested=self.tested)

    def admit(self, versions: str, *, denied: Mapping[str, str]) -> "GpuRecord":
        """Return the record of the GPU after it has passed its self-test with these versions."""
        return GpuRecord(tested={**self.tested, versions: dict(denied)})


class HealthFolder:
    """The records of a host's GPUs."""

    def __init__(self, root: Path) -> None:
        self._root = root
        make_shared_dir(root)

    def load(self, key: str) -> GpuRecord:
        """Load a GPU's record; empty if its file cannot be read."""
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
        """Save a GPU's record.

        Raises:
            OSError: The file cannot be written.
        """
        # In place: a folder with the sticky bit does not allow replacing another user's file.
        with os.fdopen(open_shared(self._path(key)), "rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(record.model_dump_json(indent=2).encode() + b"\n")
            file.truncate()

    def _path(self, key: str) -> Path:
        return self._root / f"{key}.json"


def read_memory(facts: GpuFacts, telemetry: GpuTelemetry | None) -> Memory | None:
    """Return a GPU's memory; for an APU, approximately, the part of the host's that GTT allows."""
    if telemetry is None:
        return None
    used, total = telemetry.vram_used_bytes, telemetry.vram_total_bytes
    if facts.is_apu:
        used, total = telemetry.gtt_used_bytes, telemetry.gtt_total_bytes
    return None if used is None or not total else Memory(used, total)


def plan_share(memory: Memory, *, drives_display: bool, is_apu: bool) -> Share:
    """Plan how a job shares a GPU's memory with a desktop, if there is one.

    Args:
        memory: Memory of the GPU.
        drives_display: Whether a screen is connected to it.
        is_apu: Whether its memory is the host's, which other programs always use.
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
    """Return how much a job may use; None if nothing needs to stay free."""
    if not share.headroom_bytes:
        return None
    return max(0, memory.total_bytes - memory.used_bytes - share.headroom_bytes)


def is_held(memory: Memory | None, *, limit_bytes: int | None) -> bool:
    """Return whether more memory is in use than allowed; False if unknown."""
    return memory is not None and limit_bytes is not None and memory.used_bytes > limit_bytes


def exclude_held(before: Memory | None, now: Memory, *, limit_bytes: int) -> GpuExclusion:
    """Return the exclusion of a GPU whose memory is in use; `before` is the use before its job."""
    text = f"{format_bytes(now.used_bytes)} of {format_bytes(now.total_bytes)} are in use"
    if before is not None:
        text += f" after a job; before it, {format_bytes(before.used_bytes)} were"
    wanted = f"the GPU is used again at {format_bytes(limit_bytes)} or less"
    return GpuExclusion(
        code="memory_held",
        message=f"{text}; {wanted}. End the programs that hold it (fuser -v /dev/dri/renderD*).",
    )


def exclude_after(code: FailureCode | None) -> GpuExclusion | None:
    """Return why a GPU is excluded after a training run that ended like this; None if it is not."""
    if code == FailureCode.GPU_FAULT:
        text = "It faulted or hung during a job; the driver's log (dmesg) has details."
        return GpuExclusion(code="faulted", message=f"{text} It is used again after a self-test.")
    if code == FailureCode.NO_PROGRESS:
        text = "A job on it made no progress and was killed."
        return GpuExclusion(code="hung", message=f"{text} It is used again after a self-test.")
    return None


def is_due(record: GpuRecord, *, now: datetime) -> bool:
    """Return whether an excluded GPU should be checked again."""
    pause = MEMORY_CHECK_SECONDS
    if record.needs == "self_test":
        pause = min(TEST_CHECK_SECONDS * 2**record.num_failed, MAX_TEST_CHECK_SECONDS)
    return record.excluded is not None and now - record.checked_at >= timedelta(seconds=pause)


def format_bytes(count: int) -> str:
    """Format a size for people: `1.5 GiB`."""
    return f"{count / GIB:.1f} GiB"


def name_versions(*parts: str | None) -> str:
    """Name the versions for which a self-test is valid: torch's, ROCm's and the driver's."""
    return " ".join(part or "none" for part in parts)
