"""Small tables of texts, and jobs on them."""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from redkiln.datasets import rank_within_classes
from redkiln.tables import METADATA_KEY, RANK, TARGET, Column, TableIndex
from tests.worker.job_dirs import write_job
from tests.worker.trainer.text.small_model import save_model
from worker.jobdir import LocalDataset

TOPICS = {
    "garden": ["roses", "soil", "seeds", "water", "bees", "grow", "leaf", "spring"],
    "kitchen": ["flour", "oven", "salt", "butter", "knead", "bake", "pan", "taste"],
    "sea": ["waves", "boat", "sail", "tide", "harbour", "fish", "salt", "wind"],
}


def sentence(topic, number):
    """Three to twenty words, most of them of the topic."""
    rng = np.random.default_rng([number, len(topic)])
    words = rng.choice(TOPICS[topic], size=3 + number % 18)
    return " ".join(["the", *words])


def write_text_table(path, splits, *, classes, column="text"):
    """A validated table of texts: `splits` has (text, label) pairs for train and test."""
    rows = [*splits["train"], *splits["test"]]
    ranks = []
    for split in ("train", "test"):
        ranks += rank_within_classes([label for _, label in splits[split]], seed=0)
    index = TableIndex(
        task="text-classification",
        columns=[Column(name=column, type="text")],
        target="label",
        classes=classes,
        num_train=len(splits["train"]),
        num_test=len(splits["test"]),
        seed=0,
    )
    table = pa.table(
        {
            column: pa.array([text for text, _ in rows], pa.string()),
            TARGET: pa.array([label for _, label in rows], pa.int32()),
            RANK: pa.array(ranks, pa.int32()),
        }
    ).replace_schema_metadata({METADATA_KEY: index.model_dump_json()})
    pq.write_table(table, path)
    return LocalDataset(
        name="topics",
        kind="archive",
        index_path=str(path),
        fingerprint=hashlib.sha256(path.read_bytes()).hexdigest(),
    )


def topic_splits(*, train=40, test=8):
    names = sorted(TOPICS)
    return {
        split: [
            (sentence(name, number + offset), label)
            for label, name in enumerate(names)
            for number in range(count)
        ]
        for split, count, offset in (("train", train, 0), ("test", test, 500))
    }


@pytest.fixture
def text_table(tmp_path):
    """Writes a table of texts and gives it as an order's data set."""

    def write(name="texts.parquet", *, splits=None, classes=None):
        return write_text_table(
            tmp_path / name, splits or topic_splits(), classes=classes or sorted(TOPICS)
        )

    return write


def joined(left, right):
    both = isinstance(left, dict) and isinstance(right, dict)
    return {**left, **right} if both else right


TINY_TEXT_MODEL = {"options": {"dim": 32, "layers": 1, "heads": 2, "vocabulary_size": 300}}


@pytest.fixture
def make_text_job(tmp_path, cache_dir, text_table):
    """Makes the directory of a small text job; keyword arguments change its spec."""

    def make(name="job", *, dataset=None, order=None, **spec):
        base = {
            "task": "text-classification",
            "dataset": "topics",
            "model": TINY_TEXT_MODEL,
            "training": {"epochs": 4, "batch_size": 8, "precision": "fp32"},
        }
        return write_job(
            tmp_path / name,
            {k: joined(base.get(k), v) for k, v in {**base, **spec}.items()},
            dataset=dataset or text_table(),
            **{"cache_dir": str(cache_dir), **(order or {})},
        )

    return make


@pytest.fixture(scope="session")
def models_dir(tmp_path_factory):
    """A folder of models with a small network in it."""
    root = tmp_path_factory.mktemp("models")
    save_model(root / "org" / "small")
    return root


@pytest.fixture
def make_tuning_job(make_text_job, models_dir):
    """A job that starts from that network's weights."""

    def make(name="job", *, order=None, **spec):
        model = {"options": {"max_length": "auto"}, "pretrained": "org/small"}
        order = {"models_dir": str(models_dir), **(order or {})}
        return make_text_job(name, order=order, **{"model": model, **spec})

    return make
