"""Decoding speed of a data set: the cache on all cores, compared with Pillow on one core.

Both resize the same JPEGs of a zip to squares, alternately. The loop with Pillow is the obvious
one: open, convert, resize, store in an array. The time of the cache includes starting its
processes, computing the mean and spread of the training images, and writing the file.
"""

import io
import os
import statistics
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from bench.result import Result, at_least
from bench.turns import compare
from redkiln.datasets import DatasetIndex, Sample
from redkiln.predict.pixels import PixelFormat
from worker.trainer.images.decode.decoded_set import open_decoded

COUNT = 10_000
SIDE = 160
SIZE = 128
"""More than half the side, so that the cache decodes JPEGs at full size, as Pillow does."""
PAIRS = 5
TARGET = 1.6
TARGET_CORES = 2


def run() -> list[Result]:
    """Compare the images per second of both."""
    with tempfile.TemporaryDirectory(prefix="bench-decode-") as folder:
        root = Path(folder)
        archive = write_archive(root / "images.zip")
        index = index_of(archive)
        index_path = root / "index.json"
        index_path.write_text(index.model_dump_json())
        cached, alone = [], []
        for pair in range(PAIRS):
            cached.append(_seconds_cached(archive, index_path, index, root / f"cache-{pair}"))
            alone.append(_seconds_alone(archive))
    ratio, pairs = compare(alone, cached)
    cores = len(os.sched_getaffinity(0))
    how = (
        f"{COUNT / statistics.median(cached):,.0f} of {COUNT / statistics.median(alone):,.0f} "
        f"images/s, {COUNT} JPEGs of {SIDE} pixels to {SIZE}, {cores} cores: {pairs}"
    )
    # One core has nothing to gain; the target for two cores also holds for more.
    target = TARGET if cores >= TARGET_CORES else 0.8
    return [at_least("decode cache over one core's Pillow", ratio, "ratio", target, how)]


def write_archive(path: Path, *, count: int = COUNT, side: int = SIDE) -> Path:
    """Write JPEGs of smooth noise in two classes, a tenth of them for testing."""
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(count):
            coarse = rng.integers(0, 256, (side // 8, side // 8, 3), dtype=np.uint8)
            image = Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC)
            buffer = io.BytesIO()
            image.save(buffer, "JPEG", quality=90)
            split = "test" if number % 10 == 0 else "train"
            archive.writestr(f"{split}/{number % 2}/{number:06d}.jpg", buffer.getvalue())
    return path


def index_of(archive: Path) -> DatasetIndex:
    """Build the index of an archive from `write_archive`."""
    with zipfile.ZipFile(archive) as packed:
        names = sorted(packed.namelist())
    samples = {
        split: [
            Sample(path=name, label=int(name.split("/")[1]), rank=rank)
            for rank, name in enumerate(name for name in names if name.startswith(split))
        ]
        for split in ("train", "test")
    }
    return DatasetIndex(
        classes=["a", "b"],
        splits={"train": samples["train"], "test": samples["test"]},
        image_size=(SIDE, SIDE),
        mixed_sizes=False,
        channels=3,
        seed=0,
    )


def _seconds_cached(archive: Path, index_path: Path, index: DatasetIndex, cache: Path) -> float:
    start = time.perf_counter()
    open_decoded(
        archive,
        index_path,
        index,
        fingerprint="bench",
        pixel_format=PixelFormat(size=SIZE, channels=3, resize="stretch"),
        cache_dir=cache,
        on_progress=lambda _done, _total: None,
    )
    return time.perf_counter() - start


def _seconds_alone(archive: Path) -> float:
    start = time.perf_counter()
    images = np.empty((COUNT, SIZE, SIZE, 3), dtype=np.uint8)
    with zipfile.ZipFile(archive) as packed:
        for row, name in enumerate(packed.namelist()):
            image = Image.open(io.BytesIO(packed.read(name))).convert("RGB")
            images[row] = image.resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    return time.perf_counter() - start
