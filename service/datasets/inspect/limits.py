"""Limits of an inspection: the resources it may use, and the size of its input."""

import ctypes
import os
import resource
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

MIB = 1024**2
GIB = 1024**3


@dataclass(frozen=True)
class Limits:
    """Limits of an inspection.

    Attributes:
        max_entries: Maximum files and folders of a data set.
        max_total_bytes: Maximum size of all files together, unpacked.
        max_ratio: How many times larger than its packed form a file over 1 MiB may be. Photographs
            and drawings pack to a tenth at best; deflate's own maximum is 1032.
        max_total_ratio: How many times larger than the archive all files together may be.
        max_file_bytes: Maximum size of one image file.
        max_table_bytes: Maximum size of one unpacked table; as columns it needs about twice the
            memory.
        max_annotations_bytes: Maximum size of one file with the boxes of many images.
        max_boxes: Maximum boxes of a data set; each takes about a kilobyte while it is checked.
        max_image_boxes: Maximum boxes of one image.
        max_classes: Maximum classes of a table's target, or class folders of images.
        max_pixels: Maximum pixels of one image; decoded, it needs up to four times as many bytes.
        max_scans: Maximum scans of a JPEG. Progressive ones have about ten; each costs the decoder
            a pass over all pixels, whatever its size in bytes.
        max_scanned_pixels: Maximum product of scans and pixels of a JPEG.
        max_scanned_ratio: Maximum of this product for each byte of the file, so that the time of an
            inspection is bounded by the size of the upload. Flat pictures of encoders have 1,700.
        max_image_seconds: Maximum processor time for decoding one image; 100 million pixels took
            about one second on a core of an AMD EPYC. A decoder that takes twice as long is killed.
        max_name_bytes: Maximum length of a path.
        max_depth: Maximum folders in a path.
        max_skipped_fraction: Fraction of unusable files or rows that is skipped; with more, the
            data set is refused.
        max_skipped: Number of unusable files or rows that is skipped, instead of the fraction.
        memory_bytes: Address space of each process that decodes images.
        table_memory_bytes: Address space of the process when it reads tables.
        cpu_seconds: CPU time of each process.
        output_bytes: Maximum size of each written file (index, report, an unpacked tar).
    """

    max_entries: int = 2_000_000
    max_total_bytes: int = 256 * GIB
    max_ratio: int = 200
    max_total_ratio: int = 100
    max_file_bytes: int = 256 * MIB
    max_table_bytes: int = 2 * GIB
    max_annotations_bytes: int = GIB
    max_boxes: int = 4_000_000
    max_image_boxes: int = 10_000
    max_classes: int = 10_000
    max_pixels: int = 100_000_000
    max_scans: int = 100
    max_scanned_pixels: int = 2_000_000_000
    max_scanned_ratio: int = 16_384
    max_image_seconds: float = 30.0
    max_name_bytes: int = 1024
    max_depth: int = 32
    max_skipped_fraction: float = 0.01
    max_skipped: int | None = None
    memory_bytes: int = 4 * GIB
    table_memory_bytes: int = 8 * GIB
    cpu_seconds: int = 7200
    output_bytes: int = 256 * GIB


def say_too_large(most_bytes: int) -> str:
    """Return the message about a file that is larger than a limit, and what to do."""
    units = ((GIB, "GiB"), (MIB, "MiB"), (1, "bytes"))
    size, unit = next(pair for pair in units if most_bytes >= pair[0] or pair[0] == 1)
    return f"is larger than {most_bytes / size:g} {unit}; split or shrink it"


class Unusable(NamedTuple):
    """Things of one kind, such as images, that cannot be used.

    Attributes:
        num: Number of them.
        total: Number of all things of this kind.
        what: The end of `3 of 40 ...`, such as `images cannot be used`.
    """

    num: int
    total: int
    what: str


def find_excess(kinds: Sequence[Unusable], limits: Limits) -> str | None:
    """Return the message that too many things cannot be used; None if all are skipped.

    A limit that the user gave holds for all kinds together, the usual one for each.
    """
    num_bad, some = sum(kind.num for kind in kinds), [kind for kind in kinds if kind.num]
    if limits.max_skipped is not None:
        is_excess = num_bad > limits.max_skipped
    else:
        is_excess = any(not may_skip(kind.num, total=kind.total, limits=limits) for kind in some)
    if not is_excess:
        return None
    total = min(kind.total for kind in some)
    skipping = describe_skipping(num_bad, total=total, limits=limits)
    if limits.max_skipped is None and len(some) > 1:
        allowed = f"by default at most {limits.max_skipped_fraction:.0%} of each are skipped"
        skipping = f"; {allowed}. {_advise(num_bad)}"
    return " and ".join(f"{one.num} of {one.total} {one.what}" for one in some) + skipping


def may_skip(num_bad: int, *, total: int, limits: Limits) -> bool:
    """Return whether so many unusable files or rows are skipped."""
    return num_bad <= _most_skipped(total, limits)


def describe_skipping(num_bad: int, *, total: int, limits: Limits) -> str:
    """Return the end of a message: how many may be skipped, and how to skip all that are bad."""
    most = _most_skipped(total, limits)
    verb = "is" if most == 1 else "are"
    allowed = f"at most {most} {verb} skipped" if most else "none is skipped"
    if limits.max_skipped is None:
        allowed = f"by default {allowed}"
    return f"; {allowed}. {_advise(num_bad)}"


def _advise(num_bad: int) -> str:
    return f"Repair or remove them, or skip them with skip_bad={num_bad}"


def _most_skipped(total: int, limits: Limits) -> int:
    if limits.max_skipped is not None:
        return limits.max_skipped
    return int(total * limits.max_skipped_fraction)


def confine(limits: Limits, *, parent_pid: int) -> None:
    """Set the limits of this process and tie it to its parent, before it reads any input.

    Forked children inherit the limits.
    """
    _set_limit(resource.RLIMIT_AS, limits.memory_bytes, at_most=limits.table_memory_bytes)
    _set_limit(resource.RLIMIT_CPU, limits.cpu_seconds)
    _set_limit(resource.RLIMIT_FSIZE, limits.output_bytes)
    _set_limit(resource.RLIMIT_CORE, 0)
    os.nice(5)  # the service's own threads come first
    die_with(parent_pid)


@contextmanager
def end_after(cpu_seconds: float) -> Iterator[None]:
    """Let the kernel end this process (SIGPROF) if the body takes more processor time.

    A decoder in C does not return to Python while it works, so no exception can stop it.
    """
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def allow_memory(num_bytes: int) -> None:
    """Allow this process this much address space, up to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        wanted = max(soft, num_bytes)
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def die_with(parent_pid: int) -> None:
    """End when the parent ends, even if it is killed: nobody would read the result."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        raise SystemExit("the parent has ended")


def _set_limit(kind: int, value: int, *, at_most: int | None = None) -> None:
    """Set a limit that the process may later raise up to `at_most`."""
    _, hard = resource.getrlimit(kind)
    most = value if at_most is None else max(value, at_most)
    if hard != resource.RLIM_INFINITY:
        value, most = min(value, hard), min(most, hard)
    resource.setrlimit(kind, (value, most))
