"""The decoded data set: one uint8 array on disk, made once and memory-mapped by every job.

    <cache>/decoded/<key>/images.npy   (N, S, S, C) uint8: the train split's samples, then test's
    <cache>/decoded/<key>/facts.json   DecodedFacts

The key is a digest of the data set's fingerprint and the pixel format. A folder appears by one
rename, so two jobs may decode the same set at once and one result stays; removing a folder never
hurts a job that has it open. Decoding runs in one child a core (Pillow's threads only get in each
other's way on small images), each writing its own rows of the array.
"""

import gzip
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from redkiln.datasets import DatasetIndex
from redkiln.failure import FailureCode
from worker.trainer.decode_shard import ROWS_A_MARK, Shard, ShardProblem, decode_rows
from worker.trainer.failed import TrainingFailed
from worker.trainer.pixels import PixelFormat

VERSION = 1
"""Part of the key; rises whenever the same image would decode to other pixels."""

IN_PROCESS_ROWS = 1000
"""Fewer rows than this are decoded before a child would have started."""

BUDGET_BYTES = 20 * 2**30
"""Decoded sets kept on a worker; the least recently used go first."""

GZIP_MAGIC = b"\x1f\x8b"


class DecodedFacts(BaseModel):
    """What is known of a decoded set beside its pixels.

    Attributes:
        mean: of each channel over the train split, in [0, 1].
        std: likewise; at least one grey level, so that dividing by it is safe.
    """

    num_rows: int
    mean: list[float]
    std: list[float]


@dataclass(frozen=True)
class DecodedImages:
    """A decoded set: `images` is (N, S, S, C) uint8, memory-mapped copy-on-write."""

    images: NDArray[np.uint8]
    facts: DecodedFacts


def open_decoded(
    source_path: Path,
    index_path: Path,
    index: DatasetIndex,
    *,
    fingerprint: str,
    pixel_format: PixelFormat,
    cache_dir: Path,
    on_progress: Callable[[int, int], None],
) -> DecodedImages:
    """Map the decoded set, decoding it first if it is not in the cache.

    While it decodes, `on_progress` is called with rows done and rows in all.

    Raises:
        TrainingFailed: a file is gone, has changed, or cannot be decoded.
        OSError: the disk is full.
    """
    parts = [VERSION, fingerprint, pixel_format.model_dump()]
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
    folder = cache_dir / "decoded" / key
    try:
        return _load(folder)
    except FileNotFoundError:
        folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".decoding-"))
    try:
        _decode(staging, source_path, index_path, index, pixel_format, on_progress)
        _publish(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    decoded = _load(folder)
    _prune(folder.parent, keep=folder)
    return decoded


def _load(folder: Path) -> DecodedImages:
    facts = DecodedFacts.model_validate_json((folder / "facts.json").read_bytes())
    # Copy-on-write, because torch wants memory that it could write to.
    images = np.load(folder / "images.npy", mmap_mode="c")
    os.utime(folder)
    return DecodedImages(images, facts)


def _decode(
    staging: Path,
    source_path: Path,
    index_path: Path,
    index: DatasetIndex,
    pixel_format: PixelFormat,
    on_progress: Callable[[int, int], None],
) -> None:
    num_train = len(index.splits["train"])
    num_rows = num_train + len(index.splits["test"])
    shape = (num_rows, pixel_format.size, pixel_format.size, pixel_format.channels)
    images_path = staging / "images.npy"
    images = np.lib.format.open_memmap(images_path, mode="w+", dtype=np.uint8, shape=shape)
    # A full disk must be an error here rather than a SIGBUS in the middle of decoding.
    with images_path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, images_path.stat().st_size)
    if not source_path.exists():
        message = f"the data set's files are not there any more ({source_path.name})"
        raise TrainingFailed(FailureCode.DATASET_UNAVAILABLE, message)
    shards = plan_shards(
        num_rows,
        cores=len(os.sched_getaffinity(0)),
        source_path=_plain_archive(source_path, staging),
        index_path=index_path,
        images_path=images_path,
        pixel_format=pixel_format,
    )
    if len(shards) == 1:
        problem = decode_rows(shards[0], on_row=lambda done: on_progress(done, num_rows))
    else:
        problem = _run_children(
            shards, staging, lambda done: on_progress(min(done, num_rows), num_rows)
        )
    if problem is not None:
        raise _failure(problem)
    _write_facts(staging, images, num_train=num_train)
    with images_path.open("r+b") as file:
        os.fsync(file.fileno())


def plan_shards(
    num_rows: int,
    *,
    cores: int,
    source_path: Path,
    index_path: Path,
    images_path: Path,
    pixel_format: PixelFormat,
) -> list[Shard]:
    """Equal shares of the rows, one a core, or one in all where children would not pay."""
    count = max(1, min(cores, num_rows // (IN_PROCESS_ROWS // 2)))
    count = 1 if num_rows < IN_PROCESS_ROWS else count
    bounds = [num_rows * part // count for part in range(count + 1)]
    return [
        Shard(
            source_path=str(source_path),
            index_path=str(index_path),
            images_path=str(images_path),
            pixel_format=pixel_format,
            start=start,
            stop=stop,
        )
        for start, stop in itertools.pairwise(bounds)
    ]


def _run_children(
    shards: list[Shard], staging: Path, on_row: Callable[[int], None]
) -> ShardProblem | None:
    children = []
    try:
        for number, shard in enumerate(shards):
            path = staging / f"shard-{number}.json"
            path.write_text(shard.model_dump_json())
            command = [sys.executable, "-m", "worker.trainer.decode_shard", str(path)]
            environment = {**os.environ, "REDKILN_PARENT_PID": str(os.getpid())}
            children.append(subprocess.Popen(command, env=environment, cwd=_checkout()))
        while any(child.poll() is None for child in children):
            time.sleep(0.02)
            on_row(sum(_rows_done(staging / f"shard-{n}.done") for n in range(len(shards))))
        for number, child in enumerate(children):
            problem_path = staging / f"shard-{number}.problem"
            if problem_path.exists():
                return ShardProblem.model_validate_json(problem_path.read_bytes())
            if child.returncode != 0:
                raise RuntimeError(f"a decoding child ended with status {child.returncode}")
        return None
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
            child.wait()


def _rows_done(path: Path) -> int:
    # A mark is one byte: a size never reads half-written.
    try:
        return path.stat().st_size * ROWS_A_MARK
    except FileNotFoundError:
        return 0


def _checkout() -> Path:
    return Path(__file__).parents[2]


def _plain_archive(path: Path, staging: Path) -> Path:
    """A gzipped tar is inflated once, so that every child can seek in it."""
    if path.is_dir():
        return path
    with path.open("rb") as file:
        if file.read(2) != GZIP_MAGIC:
            return path
    plain = staging / "archive.tar"
    try:
        with gzip.open(path, "rb") as packed, plain.open("wb") as file:
            shutil.copyfileobj(packed, file, 4 * 2**20)
    except (gzip.BadGzipFile, EOFError) as error:
        message = f"the data set's archive is broken: {error}"
        raise TrainingFailed(FailureCode.BAD_INPUT, message) from error
    return plain


def _write_facts(staging: Path, images: NDArray[np.uint8], *, num_train: int) -> None:
    # By counting grey levels: exact, and the same however the rows were shared out.
    levels = np.arange(256, dtype=np.float64)
    mean, std = [], []
    for channel in range(images.shape[3]):
        counts = np.zeros(256, dtype=np.int64)
        for start in range(0, num_train, 4096):
            block = images[start : min(start + 4096, num_train), :, :, channel]
            counts += np.bincount(block.reshape(-1), minlength=256)
        share = counts / counts.sum()
        average = float(share @ levels)
        spread = float(np.sqrt(share @ (levels - average) ** 2))
        mean.append(average / 255)
        std.append(max(spread, 1.0) / 255)
    facts = DecodedFacts(num_rows=len(images), mean=mean, std=std)
    (staging / "facts.json").write_text(facts.model_dump_json())


def _publish(staging: Path, folder: Path) -> None:
    for path in staging.iterdir():
        if path.name not in ("images.npy", "facts.json"):
            path.unlink()
    try:
        os.rename(staging, folder)  # noqa: PTH104 - unlike replace, never onto a full folder
    except OSError:
        if not (folder / "facts.json").exists():
            raise


def _prune(parent: Path, *, keep: Path) -> None:
    """Remove the least recently used sets above the budget; open ones stay readable."""
    folders = [path for path in parent.iterdir() if not path.name.startswith(".")]
    sizes = {path: _size_bytes(path) for path in folders}
    total = sum(sizes.values())
    for path in sorted(folders, key=lambda folder: folder.stat().st_mtime):
        if total <= BUDGET_BYTES:
            return
        if path != keep:
            shutil.rmtree(path, ignore_errors=True)
            total -= sizes[path]


def _size_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _failure(problem: ShardProblem) -> TrainingFailed:
    code = FailureCode.DATASET_UNAVAILABLE if problem.is_gone else FailureCode.BAD_INPUT
    message = f"cannot read {problem.path} of the data set: {problem.reason}"
    return TrainingFailed(code, message, path=problem.path)
