"""Tiny real data sets and job directories."""

import gc
import io
import json
import resource
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from redkiln.datasets import DatasetIndex, Sample, rank_within_classes
from tests.worker.job_dirs import write_job
from worker.jobdir import LocalDataset

CLASSES = ["bars", "dots", "rows"]
SIDE = 12
OPEN_FILES = 8192


@pytest.fixture(autouse=True, scope="session")
def many_open_files():
    """Allow more than the usual 1,024: arrays of jobs that were trained here keep files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(OPEN_FILES, hard)), hard))


@pytest.fixture(autouse=True)
def unfrozen():
    """A job freezes the heap of its process; here other tests follow, whose garbage would stay."""
    yield
    gc.unfreeze()


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
def labelled(tiny, tmp_path_factory):
    """The tiny set, whose images of the first class also have the label of the second one."""
    index = tiny.index.model_copy(deep=True, update={"format": 2, "labels_separator": ";"})
    for sample in index.splits["train"] + index.splits["test"]:
        sample.labels = [0, 1] if sample.label == 0 else [sample.label]
    path = tmp_path_factory.mktemp("labelled") / "index.json"
    path.write_text(index.model_dump_json())
    return LocalDataset(**{**tiny.local.model_dump(), "index_path": str(path)})


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory):
    """Shared, so that decoding happens once; every architecture counts as rehearsed in it.

    A rehearsal takes as long as an export, and most tests export anyway or never. A job with
    another cache rehearses.
    """
    from worker.export.rehearsal import is_rehearsed  # here, because many rooms need no torch

    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "worker.trainer.run.is_rehearsed",
            lambda key, *, cache_dir: cache_dir == folder or is_rehearsed(key, cache_dir=cache_dir),
        )
        yield folder


@pytest.fixture(scope="session")
def rank_pair(tmp_path_factory):
    """Two ranks, started once for all tests that need them."""
    from tests.worker.training import RankPair  # here, because many rooms need no torch

    pair = RankPair(tmp_path_factory.mktemp("ranks") / "ranks.log")
    yield pair
    pair.close()


def merged(base, extra):
    result = dict(base)
    for key, value in extra.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


@pytest.fixture
def rehearsed(monkeypatch):
    """Every architecture counts as rehearsed: an export is as slow as the one that follows it."""
    monkeypatch.setattr("worker.trainer.run.is_rehearsed", lambda *_, **__: True)


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
        return write_job(
            tmp_path / name,
            merged(base, spec),
            dataset=dataset or tiny.local,
            job_name="tiny patterns",
            **{"cache_dir": str(cache_dir), **(order or {})},
        )

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
    """Return the loss of every step that a job directory reports."""

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


COLOURS = ["red", "green", "blue"]


def toy_table(num=240, *, task="tabular-classification", num_test=40, seed=0):
    """Numbers with gaps and a category that decide the target; what is missing costs accuracy."""
    rng = np.random.default_rng(seed)
    size, weight = rng.normal(50, 10, num), rng.normal(2000, 5, num)
    colour = rng.integers(0, 3, num)
    score = (size - 50) / 10 + (colour - 1.0)
    is_regression = task == "tabular-regression"
    targets = 500 + 100 * score if is_regression else (score > 0).astype(np.int32)
    weight[rng.random(num) < 0.2] = np.nan
    codes = [None if rng.random() < 0.1 else int(code) for code in colour]
    return write_columns(
        {"size": size, "weight": weight, "colour": codes},
        targets,
        task=task,
        num_test=num_test,
        categories={"colour": COLOURS},
    )


def write_columns(
    columns,
    targets,
    *,
    task,
    num_test,
    categories=None,
    classes=("no", "yes"),
    target="answer",
    labels=None,
):
    """Arrow columns and the index of a validated table; labels (N, K) are 1 for each of several."""
    import pyarrow as pa

    from redkiln.tables import LABELS, METADATA_KEY, RANK, TARGET, Column, TableIndex

    num_train = len(targets) - num_test
    described, arrays = [], {}
    for name, values in columns.items():
        if name in (categories or {}):
            arrays[name] = pa.array(values, type=pa.int32())
            column = Column(name=name, type="categorical", categories=categories[name])
        else:
            numbers = np.asarray(values, dtype=np.float64)
            arrays[name] = pa.array(numbers, mask=np.isnan(numbers))
            there = numbers[:num_train][~np.isnan(numbers[:num_train])]
            facts = {}
            if len(there):
                low, high = float(there.min()), float(there.max())
                facts = {"mean": float(there.mean()), "std": float(there.std()) or 1.0}
                facts |= {"minimum": low, "maximum": high}
            column = Column(name=name, type="numeric", **facts)
        described.append(column)
    is_regression = task == "tabular-regression"
    arrays[TARGET] = pa.array(targets, type=pa.float64() if is_regression else pa.int32())
    ranks = []
    for some in (targets[:num_train], targets[num_train:]):
        strata = [0] * len(some) if is_regression else [int(label) for label in some]
        ranks += rank_within_classes(strata, seed=0)
    arrays[RANK] = pa.array(ranks, type=pa.int32())
    if labels is not None:
        lists = [np.flatnonzero(row).tolist() for row in labels]
        arrays[LABELS] = pa.array(lists, type=pa.list_(pa.int32()))
    index = TableIndex(
        format=1 if labels is None else 2,
        labels_separator=None if labels is None else ";",
        task=task,
        columns=described,
        target=target,
        classes=[] if is_regression else list(classes),
        target_mean=float(np.mean(targets[:num_train])) if is_regression else 0.0,
        target_std=(float(np.std(targets[:num_train])) or 1.0) if is_regression else 1.0,
        num_train=num_train,
        num_test=num_test,
        seed=0,
    )
    return pa.table(arrays).replace_schema_metadata({METADATA_KEY: index.model_dump_json()})


@pytest.fixture
def write_table(tmp_path):
    """Writes a validated table's Parquet file: a toy one, or one of given columns."""
    from pyarrow import parquet

    def write(name="table.parquet", *, columns=None, **options):
        table = toy_table(**options) if columns is None else write_columns(columns, **options)
        parquet.write_table(table, tmp_path / name)
        return tmp_path / name

    return write


def _small_training(spec):
    """The model and the training of a tabular job that takes no time."""
    model = spec.get("model", {})
    name = model.get("name") if isinstance(model, dict) else model
    if name == "gradient-boosting":
        return {"training": {"steps": 30}}
    options = {} if name == "linear" else {"options": {"hidden": [16]}}
    return {"training": {"epochs": 3, "batch_size": 16}, "model": options}


@pytest.fixture
def make_table_job(tmp_path, write_table, cache_dir):
    """Makes the job directory of a tabular job; keyword arguments change the spec."""

    def make(name="job", *, task="tabular-classification", path=None, order=None, **spec):
        path = path or write_table(f"{task}.parquet", task=task)
        base = {
            "task": task,
            "dataset": "toy",
            **_small_training(spec),
        }
        dataset = LocalDataset(
            name="toy", kind="archive", index_path=str(path), fingerprint="f" * 64
        )
        return write_job(
            tmp_path / name,
            merged(base, spec),
            dataset=dataset,
            **{"cache_dir": str(cache_dir), **(order or {})},
        )

    return make
