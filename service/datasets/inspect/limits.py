"""How much an inspection may use, and how large its input may be."""

import ctypes
import os
import resource
import signal
from dataclasses import dataclass

MIB = 1024**2
GIB = 1024**3


@dataclass(frozen=True)
class Limits:
    """Bounds of an inspection.

    Attributes:
        max_entries: files and folders of a data set.
        max_total_bytes: of all files together, unpacked.
        max_ratio: how much larger than its packed form a file over 1 MiB may be. Photographs and
            drawings pack to a tenth at best; deflate itself ends at 1032.
        max_total_ratio: how much larger than the archive all files together may be.
        max_file_bytes: of one image file.
        max_table_bytes: of one table, unpacked; as columns it takes about twice as much memory.
        max_classes: of a table's target, or folders of images.
        max_pixels: of one image; decoded it takes up to four times as many bytes.
        max_name_bytes: of a path.
        max_depth: folders in a path.
        max_skipped_fraction: share of unusable files or rows that is skipped rather than refused.
        memory_bytes: address space of each process that decodes images.
        table_memory_bytes: address space of the process where it reads tables.
        cpu_seconds: of each process.
        output_bytes: of each file that is written (index, report, an unpacked tar).
    """

    max_entries: int = 2_000_000
    max_total_bytes: int = 256 * GIB
    max_ratio: int = 200
    max_total_ratio: int = 100
    max_file_bytes: int = 256 * MIB
    max_table_bytes: int = 2 * GIB
    max_classes: int = 10_000
    max_pixels: int = 100_000_000
    max_name_bytes: int = 1024
    max_depth: int = 32
    max_skipped_fraction: float = 0.01
    memory_bytes: int = 4 * GIB
    table_memory_bytes: int = 8 * GIB
    cpu_seconds: int = 7200
    output_bytes: int = 256 * GIB


def confine(limits: Limits, *, parent_pid: int) -> None:
    """Bind this process to its limits and to its parent's life, before it reads any input.

    Children that it forks inherit the limits.
    """
    _set_limit(resource.RLIMIT_AS, limits.memory_bytes, at_most=limits.table_memory_bytes)
    _set_limit(resource.RLIMIT_CPU, limits.cpu_seconds)
    _set_limit(resource.RLIMIT_FSIZE, limits.output_bytes)
    _set_limit(resource.RLIMIT_CORE, 0)
    os.nice(5)  # the service's own threads come first
    die_with(parent_pid)


def allow_memory(num_bytes: int) -> None:
    """Let this process have so much address space, within what it was bound to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        wanted = max(soft, num_bytes)
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def die_with(parent_pid: int) -> None:
    """End with the parent, also when that is killed: nobody would take the result."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        raise SystemExit("the parent has ended")


def _set_limit(kind: int, value: int, *, at_most: int | None = None) -> None:
    """Set a limit, which the process itself may raise up to `at_most`."""
    _, hard = resource.getrlimit(kind)
    most = value if at_most is None else max(value, at_most)
    if hard != resource.RLIM_INFINITY:
        value, most = min(value, hard), min(most, hard)
    resource.setrlimit(kind, (value, most))
