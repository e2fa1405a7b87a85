"""Tiny real data sets and job directories."""

import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from redkiln.datasets import DatasetIndex, Sample, rank_within_classes
from worker.jobdir import JobDir, LocalDataset, Order

CLASSES = ["bars", "dots", "rows"]
SIDE = 12


def pattern(label, number, *, channels=3):
    """An image whose class shows: vertical bars, a blob, or horizontal rows, in some noise."""
    rng = np.random.default_rng(1000 * label + number)
    pixels = rng.integers(0, 60, (SIDE, SIDE, 3))
    if label == 0:
        pixels[:, number % 3 :: 3] += 150
    elif label == 1:
        pixels[4:8, 4:8] += 150
    else:
        pixels[number % 3 :: 3, :] += 150
    image = Image.fromarray(pixels.astype(np.uint8))
    return image if channels == 3 else image.convert("L")


def png(image):
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def index_of(names, *, channels=3, sha256=None):
    """A DatasetIndex of names like `train/<class>/<file>`."""
    splits = {}
    for split in ("train", "test"):
        mine = sorted(name for name in names if name.startswith(f"{split}/"))
        labels = [CLASSES.index(name.split("/")[1]) for name in mine]
        ranks = rank_within_classes(labels, seed=0)
        splits[split] = [
            Sample(path=name, label=label, rank=rank, sha256=(sha256 or {}).get(name))
            for name, label, rank in zip(mine, labels, ranks, strict=True)
        ]
    return DatasetIndex(
        classes=CLASSES,
        splits=splits,
        image_size=(SIDE, SIDE),
        mixed_sizes=False,
        channels=channels,
        seed=0,
    )


def tiny_files(*, train=20, test=6, channels=3):
    return {
        f"{split}/{name}/{number:03d}.png": png(pattern(label, number + offset, channels=channels))
        for split, count, offset in (("train", train, 0), ("test", test, 500))
        for label, name in enumerate(CLASSES)
        for number in range(count)
    }


@dataclass
class TinyDataset:
    """A zip of three classes, 20 training and 6 test images each, and its index."""

    path: Path
    index_path: Path
    index: DatasetIndex

    @property
    def local(self):
        return LocalDataset(
            name="tiny",
            kind="archive",
            path=str(self.path),
            index_path=str(self.index_path),
            fingerprint="f" * 64,
        )


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    files = tiny_files()
    path = folder / "tiny.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    index = index_of(files)
    index_path = folder / "index.json"
    index_path.write_text(index.model_dump_json())
    return TinyDataset(path, index_path, index)


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory):
    """Shared, so that rehearsals and decoding happen once."""
    return tmp_path_factory.mktemp("cache")


def merged(base, extra):
    result = dict(base)
    for key, value in extra.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


@pytest.fixture
def make_job(tmp_path, tiny, cache_dir):
    """Makes a job directory; keyword arguments change the spec, `order` changes the order."""

    def make(name="job", *, dataset=None, order=None, **spec):
        base = {
            "task": "image-classification",
            "dataset": "tiny",
            "model": {"name": "mnist-cnn"},
            # Whatever the CPU: curves that are compared must not depend on how it rounds bf16.
            "training": {"epochs": 2, "batch_size": 8, "precision": "fp32"},
        }
        written = Order(
            job_id="job_1",
            job_name="tiny patterns",
            attempt_id="att_1",
            spec=merged(base, spec),
            dataset=dataset or tiny.local,
            device="cpu",
            threads=1,
            **{"cache_dir": str(cache_dir), **(order or {})},
        )
        job_dir = JobDir(tmp_path / name)
        job_dir.root.mkdir(exist_ok=True)
        job_dir.order_path.write_text(written.model_dump_json())
        return job_dir

    return make


def read_events(job_dir, kind=None):
    lines = job_dir.events_path.read_text().splitlines()
    events = [json.loads(line) for line in lines]
    return [event for event in events if kind in (None, event["kind"])]


@pytest.fixture
def events():
    return read_events


@pytest.fixture
def losses():
    """The loss of every step that a job directory tells of."""

    def read(job_dir):
        found = {}
        for event in read_events(job_dir, "metrics"):
            found.update(dict(event["data"]["points"].get("train/loss", [])))
        return found

    return read


@pytest.fixture
def files():
    return tiny_files


@pytest.fixture
def make_index():
    return index_of
