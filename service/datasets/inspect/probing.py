"""Reads and decodes many files, in several processes if that is faster."""

import functools
import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context

from service.datasets.inspect.images import BadImage, ImageFacts, prepare_decoder, probe_image
from service.datasets.inspect.limits import Limits, die_with, end_after
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.report import refuse
from service.datasets.inspect.source import Source

_BATCH = 64
_MIN_POOLED = 500
"""Below this many files, starting processes takes longer than it saves."""
_MERCY = 2
"""Multiple of an image's time after which a decoder that has not returned is killed."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of decoding a file: an image, or what is wrong with it.

    Attributes:
        fault: Code and message of the problem; None for a valid image.
        sha256: Digest of the file; None if one digest covers the whole source.
    """

    facts: ImageFacts | None = None
    fault: tuple[str, str] | None = None
    sha256: str | None = None
    size_bytes: int = 0


def probe_all(
    source: Source, entries: Sequence[Entry], *, limits: Limits, num_processes: int
) -> list[Probe]:
    """Probe every entry, in order.

    Raises:
        Refused: A file crashed the decoder.
    """
    if num_processes < 2 or len(entries) < _MIN_POOLED:
        prepare_decoder(limits)
        return [_probe(source, entry, limits) for entry in entries]
    pool = ProcessPoolExecutor(
        num_processes,
        # A forked process has the source open and the entries; it is safe as there is one thread.
        mp_context=get_context("fork"),
        initializer=_prepare_process,
        initargs=(source, entries, limits, os.getpid()),
    )
    with pool:
        try:
            return [
                probe
                for batch in pool.map(_probe_batch, range(0, len(entries), _BATCH))
                for probe in batch
            ]
        except BrokenProcessPool:
            raise refuse(
                "decoder_died",
                "decoding the images used more memory or time than allowed, or crashed the "
                "decoder; look for damaged or very large files",
            ) from None


_process_source: Source
_process_entries: Sequence[Entry]
_process_limits: Limits


def _prepare_process(
    source: Source, entries: Sequence[Entry], limits: Limits, parent_pid: int
) -> None:
    global _process_source, _process_entries, _process_limits
    die_with(parent_pid)
    prepare_decoder(limits)
    _process_source, _process_entries, _process_limits = source, entries, limits


def _probe_batch(start: int) -> list[Probe]:
    batch = _process_entries[start : start + _BATCH]
    return [_probe(_process_source, entry, _process_limits) for entry in batch]


def _probe(source: Source, entry: Entry, limits: Limits) -> Probe:
    try:
        content = source.read(entry, limits=limits)
        with end_after(_MERCY * limits.max_image_seconds):
            facts = probe_image(content, limits=limits)
    except BadImage as bad:
        return _fail(bad.code, bad.message)
    except MemoryError:
        return _fail("too_large", "needs more memory than allowed")
    sha256 = None if source.has_digest else hashlib.sha256(content).hexdigest()
    return Probe(facts=facts, sha256=sha256, size_bytes=len(content))


@functools.lru_cache(maxsize=64)
def _fail(code: str, message: str) -> Probe:
    """Return one object for all files with the same fault; there may be a million."""
    return Probe(fault=(code, message))
