"""Rows 16 and 17: the GPU's memory and shared memory."""

import re

from redkiln.views.hardware import GpuFacts
from worker.hardware.choose import gpu_key
from worker.hardware.doctor.evidence import Evidence, name_of
from worker.hardware.doctor.finding import Finding, Row, bad, ok, unknown

GIB = 1024**3

HELD_RATIO = 0.25
"""A desktop uses less than this share of a card; a larger share is another program's work."""

SMALL_CARVE_OUT_BYTES = 4 * GIB
"""The most that firmware reserves for an integrated GPU by default."""

LEAST_SHARED_BYTES = GIB
"""Container engines provide 64 MiB of /dev/shm; AMD's documentation asks for 8 GB."""

REMOUNT = "sudo mount -o remount,size=8G /dev/shm"

FRAGMENTED_RATIO = 0.2
"""Reserved but unallocated memory, relative to allocated memory; more means fragmentation."""

_OUT_OF_MEMORY = re.compile(
    r"Tried to allocate ([\d.]+ \w+).*?([\d.]+) (\w+) is allocated by PyTorch, and ([\d.]+) (\w+) "
    r"is reserved by PyTorch but unallocated",
    re.DOTALL,
)
_UNITS = {"bytes": 1, "KiB": 1024, "MiB": 1024**2, "GiB": GIB}

ALLOCATOR = "PYTORCH_ALLOC_CONF=garbage_collection_threshold:0.8,max_split_size_mb:512"


def check_gpu_memory(evidence: Evidence) -> Finding:
    """Row 16: check for out-of-memory errors below the card's size."""
    for text in evidence.logs.values():
        if (match := _OUT_OF_MEMORY.search(text)) and _is_fragmented(match):
            wanted, allocated, unit, idle, idle_unit = match.groups()
            return bad(
                "slows",
                evidence=f"a trainer requested {wanted} while {idle} {idle_unit} were reserved and "
                f"unused, {allocated} {unit} in use",
                cause="torch's cache is fragmented into pieces that are all too small",
                fix=f"{ALLOCATOR}   or a smaller batch_size",
            )
    if evidence.busy_gpus is not None:
        for gpu in evidence.usable_gpus:
            if gpu_key(gpu) not in evidence.busy_gpus and (held := _held_ratio(gpu)) > HELD_RATIO:
                return _judge_held(gpu, held, evidence)
    for gpu in evidence.usable_gpus:
        if gpu.is_apu and (seen := gpu.telemetry) and _is_carved_small(gpu):
            return bad(
                "note",
                evidence=f"{name_of(gpu)} has {_gib(seen.vram_total_bytes)} of its own and "
                f"{_gib(seen.gtt_total_bytes)} of the host's (GTT)",
                cause="an integrated GPU borrows the host's memory; programs that look only at "
                "its own memory see little",
                fix="raise the share in the BIOS (UMA frame buffer), or the limit: "
                "ttm.pages_limit= on the kernel's command line",
            )
    if deaths := evidence.deaths_of(16):
        return bad(
            "note",
            evidence=f"attempt {deaths[-1].attempt_id}: {deaths[-1].line}",
            cause="the job needs more memory than the GPU has",
            fix="a smaller batch_size or image_size, or accumulation, in the job's spec",
        )
    if not evidence.usable_gpus:
        return unknown("no GPU can be opened here")
    measured = [gpu for gpu in evidence.usable_gpus if gpu.telemetry]
    if not measured:
        return unknown("no card reports how much of its memory is used")
    return ok("; ".join(f"{name_of(gpu)}: {_describe_use(gpu)}" for gpu in measured))


def check_shared_memory(evidence: Evidence) -> Finding:
    """Row 17: check /dev/shm, through which data loaders pass batches."""
    shared = evidence.shared_memory
    if shared is None:
        return unknown("the size of shared memory (/dev/shm) cannot be read")
    seen = f"shared memory (/dev/shm): {_gib(shared.size_bytes)}, {_gib(shared.free_bytes)} free"
    deaths = evidence.deaths_of(17)
    if shared.size_bytes >= LEAST_SHARED_BYTES and not deaths:
        return ok(seen)
    died = f"; attempt {deaths[-1].attempt_id}: {deaths[-1].line}" if deaths else ""
    return bad(
        "slows",
        evidence=seen + died,
        cause="data loaders and all-reduce use it; when it is full, they die of a bus error",
        fix="shm_size: 8g   in compose; for docker run: --shm-size 8G"
        if evidence.is_container
        else REMOUNT,
        command="" if evidence.is_container else REMOUNT,
    )


def _judge_held(gpu: GpuFacts, held: float, evidence: Evidence) -> Finding:
    holders = ", ".join(f"{p.name} ({p.pid})" for p in evidence.gpu_processes)
    return bad(
        "slows",
        evidence=f"{name_of(gpu)}: {_describe_use(gpu)} ({held:.0%}) and no job of this worker "
        "uses it" + (f"; open in {holders}" if holders else ""),
        cause="another program holds the GPU's memory, so jobs wait for it or run out of memory",
        fix=f"kill {evidence.gpu_processes[0].pid}"
        if evidence.gpu_processes
        else "end the program that holds it: sudo fuser -v /dev/kfd",
        command=f"kill {evidence.gpu_processes[0].pid}"
        if evidence.gpu_processes
        else "sudo fuser -v /dev/kfd",
        on_host=evidence.is_container,
    )


def _is_fragmented(match: re.Match[str]) -> bool:
    _, allocated, unit, idle, idle_unit = match.groups()
    in_use = float(allocated) * _UNITS.get(unit, 1)
    return float(idle) * _UNITS.get(idle_unit, 1) > FRAGMENTED_RATIO * in_use


def _held_ratio(gpu: GpuFacts) -> float:
    told = gpu.telemetry
    if gpu.is_apu or told is None or not told.vram_total_bytes or told.vram_used_bytes is None:
        return 0.0
    return told.vram_used_bytes / told.vram_total_bytes


def _is_carved_small(gpu: GpuFacts) -> bool:
    total = gpu.telemetry.vram_total_bytes if gpu.telemetry else None
    return total is not None and total <= SMALL_CARVE_OUT_BYTES


def _describe_use(gpu: GpuFacts) -> str:
    told = gpu.telemetry
    if told is None:
        return "unknown"
    return f"{_gib(told.vram_used_bytes)} of {_gib(told.vram_total_bytes)} used"


def _gib(num_bytes: int | None) -> str:
    if num_bytes is None:
        return "?"
    return f"{num_bytes / GIB:.1f} GiB" if num_bytes >= GIB else f"{num_bytes / 1024**2:.0f} MiB"


ROWS = (
    Row(
        16,
        "gpu_memory",
        "the GPU's memory",
        "`HIP out of memory` below the size of the card",
        check_gpu_memory,
    ),
    Row(
        17,
        "shared_memory",
        "shared memory",
        "`DataLoader worker is killed by signal: Bus error`",
        check_shared_memory,
    ),
)
