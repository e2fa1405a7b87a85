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
        max_pixels: of one image; decoded it takes up to four times as many bytes.
        max_name_bytes: of a path.
        max_depth: folders in a path.
        max_skipped_fraction: share of unusable image files that is skipped rather than refused.
        memory_bytes: address space of each process.
        cpu_seconds: of each process.
        output_bytes: of each file that is written (index, report, an unpacked tar).
    """

    max_entries: int = 2_000_000
    max_total_bytes: int = 256 * GIB
    max_ratio: int = 200
    max_total_ratio: int = 100
    max_file_bytes: int = 256 * MIB
    max_pixels: int = 100_000_000
    max_name_bytes: int = 1024
    max_depth: int = 32
    max_skipped_fraction: float = 0.01
    memory_bytes: int = 4 * GIB
    cpu_seconds: int = 7200
    output_bytes: int = 256 * GIB


def confine(limits: Limits, *, parent_pid: int) -> None:
    """Bind this process to its limits and to its parent's life, before it reads any input.

    Children that it forks inherit the limits.
    """
    _set_limit(resource.RLIMIT_AS, limits.memory_bytes)
    _set_limit(resource.RLIMIT_CPU, limits.cpu_seconds)
    _set_limit(resource.RLIMIT_FSIZE, limits.output_bytes)
    _set_limit(resource.RLIMIT_CORE, 0)
    os.nice(5)  # the service's own threads come first
    die_with(parent_pid)


def die_with(parent_pid: int) -> None:
    """End with the parent, also when that is killed: nobody would take the result."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        raise SystemExit("the parent has ended")


def _set_limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (limit, limit))
