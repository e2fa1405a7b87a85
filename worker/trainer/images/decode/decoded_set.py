"""The decoded data set: one uint8 array on disk, created once and read by every job.

    <cache>/decoded/<key>/images.npy   (N, C, S, S) uint8: the training split's samples, then test's
    <cache>/decoded/<key>/facts.json   DecodedFacts
    <cache>/decoded/<key>-packed/      for a set too large for the disk: facts.json, and the files
                                       unpacked if they cannot be read in place; see `decode_ahead`

The key is a digest of the data set's fingerprint and the pixel format. A folder appears by one
rename, so two jobs may decode the same set at once and one result stays. A folder that a job reads
is held, so it is not removed to make room.

Shapes: N images, C channels, S side in pixels.
"""

import hashlib
import json
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from redkiln.datasets import ImageIndex
from redkiln.predict.pixels import PixelFormat
from worker.jobdir import DECODED_BYTES
from worker.trainer.images.decode.ahead import DecodingRows
from worker.trainer.images.decode.blocks import DecodeOrder
from worker.trainer.images.decode.cache import prune, publish, removable_bytes
from worker.trainer.images.decode.facts import (
    DecodedFacts,
    choose_facts_rows,
    count_rows,
    facts_of,
    measure_facts,
)
from worker.trainer.images.decode.holding import Hold
from worker.trainer.images.decode.room import may_be_stored
from worker.trainer.images.decode.together import decode_together
from worker.trainer.images.rows.pixel_rows import FileRows, LentRows, Rows
from worker.trainer.images.sources.readable_source import UNPACKED, make_readable, require_source

VERSION = 2
"""Part of the key; increase it when the same image would decode to other pixels or facts."""


class Pixels(Protocol):
    """Images by row, indexed like an array (N, S, S, C) uint8."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, S, S, C)."""

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the images of some rows."""


@dataclass(frozen=True)
class DecodedImages:
    """A decoded set.

    Attributes:
        images: (N, S, S, C) uint8, memory-mapped copy-on-write if stored.
        open_rows: Opens a reader of rows that costs no memory. None: the images are in memory.
        is_stored: Whether the pixels are on disk; otherwise each image is decoded on access.
        hold: Keeps the files on disk from being removed.
        close: Stops the decoding processes; the next access starts them again.
    """

    images: Pixels
    facts: DecodedFacts
    open_rows: Callable[[], Rows] | None = None
    is_stored: bool = True
    hold: Hold | None = None
    close: Callable[[], None] = field(default=lambda: None)


def open_decoded(
    source_path: Path,
    index_path: Path,
    index: ImageIndex,
    *,
    fingerprint: str,
    pixel_format: PixelFormat,
    cache_dir: Path,
    on_progress: Callable[[int, int], None],
    budget_bytes: int = DECODED_BYTES,
) -> DecodedImages:
    """Open the decoded set, decoding it first if it is not in the cache and the disk has room.

    Args:
        source_path: The data set's files.
        index_path: The index as a file, which decoding processes read.
        index: The same index, parsed.
        fingerprint: Fingerprint of the data set.
        pixel_format: Pixels that images are decoded to.
        cache_dir: The worker's cache.
        on_progress: Called during decoding with rows done and rows in total.
        budget_bytes: Disk space for all decoded sets on this worker.

    Raises:
        TrainingFailed: a file is missing, has changed, or cannot be decoded.
        OSError: the disk is full.
    """
    parts = [VERSION, fingerprint, pixel_format.model_dump()]
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
    folder = cache_dir / "decoded" / key
    try:
        return _load(folder)
    except FileNotFoundError:
        folder.parent.mkdir(parents=True, exist_ok=True)
    size_bytes = count_rows(index) * pixel_format.num_bytes
    if not may_be_stored(
        size_bytes,
        budget_bytes=budget_bytes,
        free_bytes=shutil.disk_usage(folder.parent).free,
        others_bytes=removable_bytes(folder.parent),
    ):
        packed = _Packed(source_path, index_path, index, pixel_format)
        return _open_packed(folder.with_name(f"{key}-packed"), packed, on_progress)
    free_bytes = shutil.disk_usage(folder.parent).free
    # Make room first: the disk may be what is short, not the budget.
    prune(folder.parent, keep=folder, free_bytes=free_bytes, wanted_bytes=size_bytes)
    staging = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".decoding-"))
    try:
        _decode(staging, source_path, index_path, index, pixel_format, on_progress)
        publish(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    decoded = _load(folder)
    prune(folder.parent, keep=folder, budget_bytes=budget_bytes)
    return decoded


def _load(folder: Path) -> DecodedImages:
    # Hold the folder before reading it, so that its files are complete and stay.
    hold = Hold(folder)
    facts = DecodedFacts.model_validate_json((folder / "facts.json").read_bytes())
    path = folder / "images.npy"
    # Copy-on-write, because torch expects writable memory.
    images = np.load(path, mmap_mode="c").transpose(0, 2, 3, 1)
    os.utime(folder)
    return DecodedImages(images, facts, open_rows=partial(FileRows, path), hold=hold)


def _decode(
    staging: Path,
    source_path: Path,
    index_path: Path,
    index: ImageIndex,
    pixel_format: PixelFormat,
    on_progress: Callable[[int, int], None],
) -> None:
    num_rows = count_rows(index)
    images_path = staging / "images.npy"
    shape = (num_rows, *pixel_format.shape)
    mapped = np.lib.format.open_memmap(images_path, mode="w+", dtype=np.uint8, shape=shape)
    offset: int = mapped.offset
    del mapped
    # Allocate the file now, so that a full disk is an error here and not halfway through decoding.
    with images_path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, images_path.stat().st_size)
    require_source(source_path)
    work = DecodeOrder(
        folder=str(staging),
        source_path=str(make_readable(source_path, index, staging)),
        index_path=str(index_path),
        images_path=str(images_path),
        offset=offset,
        pixel_format=pixel_format,
    )
    cores = len(os.sched_getaffinity(0))
    levels = decode_together(work, index, cores=cores, on_progress=on_progress)
    with images_path.open("r+b") as file:
        os.fsync(file.fileno())
    (staging / "facts.json").write_text(facts_of(levels, index).model_dump_json())


@dataclass(frozen=True)
class _Packed:
    """A set whose files stay packed.

    Attributes:
        hold: Keeps the unpacked files from being removed.
    """

    source_path: Path
    index_path: Path
    index: ImageIndex
    pixel_format: PixelFormat
    hold: Hold | None = field(default=None, compare=False)

    def open_rows(self) -> Rows:
        """Return a reader that shares the processes: starting them takes longer than reading."""
        return LentRows(self._reader)

    @property
    def shape(self) -> tuple[int, ...]:
        channels, height, width = self.pixel_format.shape
        return count_rows(self.index), height, width, channels

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        chosen: Sequence[int] = np.asarray(rows).reshape(-1).tolist()
        planes = np.empty((len(chosen), *self.pixel_format.shape), dtype=np.uint8)
        self._reader.read(chosen, planes)
        return planes.transpose(0, 2, 3, 1)

    def close(self) -> None:
        """Stop the decoding processes. No reader may be in use."""
        reader = self.__dict__.pop("_reader", None)
        if reader is not None:
            reader.close()

    @cached_property
    def _reader(self) -> Rows:
        reader = DecodingRows(
            self.source_path,
            self.index_path,
            self.pixel_format,
            processes=len(os.sched_getaffinity(0)),
        )
        weakref.finalize(self, reader.close)
        return reader


def _open_packed(
    folder: Path, packed: _Packed, on_progress: Callable[[int, int], None]
) -> DecodedImages:
    require_source(packed.source_path)
    folder.mkdir(exist_ok=True)
    packed = replace(packed, hold=Hold(folder))
    readable = folder / UNPACKED
    if not readable.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".decoding-") as staging:
            made = make_readable(packed.source_path, packed.index, Path(staging))
            if made != packed.source_path:
                made.replace(readable)
    if readable.exists():
        packed = replace(packed, source_path=readable)
    facts_path = folder / "facts.json"
    if not facts_path.exists():
        facts = _measure_packed(packed, on_progress)
        part = folder / f".facts-{os.getpid()}.json"
        part.write_text(facts.model_dump_json())
        part.replace(facts_path)
    os.utime(folder)
    facts = DecodedFacts.model_validate_json(facts_path.read_bytes())
    return DecodedImages(
        packed,
        facts,
        open_rows=packed.open_rows,
        is_stored=False,
        hold=packed.hold,
        close=packed.close,
    )


def _measure_packed(packed: _Packed, on_progress: Callable[[int, int], None]) -> DecodedFacts:
    num_train = len(packed.index.splits["train"])
    total = len(choose_facts_rows(num_train, num_bytes=packed.pixel_format.num_bytes))
    with closing(packed.open_rows()) as rows:
        # Reading the first row starts the processes, which must not count.
        rows.read([0], np.empty((1, *packed.pixel_format.shape), dtype=np.uint8))
        began = time.perf_counter()
        facts = measure_facts(
            rows,
            packed.index,
            packed.pixel_format,
            on_block=lambda num_read: on_progress(num_read, total),
        )
        seconds = time.perf_counter() - began
    return facts.model_copy(update={"images_per_second": total / max(seconds, 1e-9)})
