"""Archives of images, as a service would have registered them."""

import hashlib
import io
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from redkiln.datasets import DatasetIndex, Sample, rank_within_classes
from worker.jobdir import LocalDataset

DATA = Path(__file__).parents[2] / "shared" / "data"
"""Data sets next to the checkout; used if they exist."""
CIFAR = DATA / "cifar10-12k.zip"
SIDE = 32


def archive_dataset(
    archive: Path, root: Path, *, side: int = SIDE, grey_side: int | None = None
) -> LocalDataset:
    """Index a zip of `train/<class>/*` and `test/<class>/*`, with the index below `root`.

    Args:
        archive: Zip of images in colour, unless `grey_side` is given.
        root: Folder for the index.
        side: Side of the images in pixels.
        grey_side: The same if they are grey.
    """
    index = index_archive(archive, side=side)
    if grey_side is not None:
        grey = {"image_size": (grey_side, grey_side), "channels": 1}
        index = index.model_copy(update=grey)
    index_path = root / "index.json"
    index_path.write_text(index.model_dump_json())
    return LocalDataset(
        name="bench",
        kind="archive",
        path=str(archive),
        index_path=str(index_path),
        fingerprint=hashlib.sha256(archive.read_bytes()).hexdigest(),
    )


def index_archive(archive: Path, *, side: int = SIDE) -> DatasetIndex:
    """Build the index of a zip of `train/<class>/*` and `test/<class>/*`."""
    with zipfile.ZipFile(archive) as packed:
        names = [name for name in packed.namelist() if not name.endswith("/")]
    classes = sorted({name.split("/")[1] for name in names})
    splits = {}
    for split in ("train", "test"):
        mine = sorted(name for name in names if name.startswith(f"{split}/"))
        labels = [classes.index(name.split("/")[1]) for name in mine]
        ranks = rank_within_classes(labels, seed=0)
        splits[split] = [
            Sample(path=name, label=label, rank=rank)
            for name, label, rank in zip(mine, labels, ranks, strict=True)
        ]
    return DatasetIndex(
        classes=classes,
        splits={"train": splits["train"], "test": splits["test"]},
        image_size=(side, side),
        mixed_sizes=False,
        channels=3,
        seed=0,
    )


def generate_archive(path: Path, *, counts: tuple[int, int] = (1000, 200)) -> Path:
    """Write ten classes of coloured noise; `counts`: training and test images per class."""
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(path, "w") as packed:
        for split, count in zip(("train", "test"), counts, strict=True):
            for label in range(10):
                for number in range(count):
                    pixels = rng.integers(0, 128, (SIDE, SIDE, 3)) + 12 * label
                    buffer = io.BytesIO()
                    Image.fromarray(pixels.astype(np.uint8)).save(buffer, "JPEG")
                    packed.writestr(f"{split}/class{label}/{number:04d}.jpg", buffer.getvalue())
    return path


def thin_archive(archive: Path, path: Path, *, counts: Mapping[str, int]) -> Path:
    """Copy the first images of each class; `counts`: how many by split."""
    copied: Counter[str] = Counter()
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(path, "w") as packed:
        for name in sorted(source.namelist()):
            folder = name.rpartition("/")[0]
            if not name.endswith("/") and copied[folder] < counts[name.partition("/")[0]]:
                copied[folder] += 1
                packed.writestr(name, source.read(name))
    return path
