"""A text job through the trainer's and the export's own processes."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

from redkiln.datasets import rank_within_classes
from redkiln.tables import METADATA_KEY, RANK, TARGET, Column, TableIndex
from worker.jobdir import EXIT_DONE, JobDir, LocalDataset, Order

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 240
WORDS = {"sea": ["boat", "tide", "sail", "wave"], "land": ["hill", "road", "tree", "barn"]}
NUM_TRAIN, NUM_TEST = 240, 40


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Two classes of short texts that share most of their words."""
    rng = np.random.default_rng(0)
    classes = sorted(WORDS)
    rows = []
    for number in range(NUM_TRAIN + NUM_TEST):
        label = number % 2
        words = [*rng.choice(WORDS[classes[label]], size=2), *["and", "the"] * (number % 7)]
        rows.append((" ".join(rng.permutation(words)), label))
    labels = [label for _, label in rows]
    parts = labels[:NUM_TRAIN], labels[NUM_TRAIN:]
    ranks = [rank for part in parts for rank in rank_within_classes(part, seed=0)]
    index = TableIndex(
        task="text-classification",
        columns=[Column(name="text", type="text")],
        target="label",
        classes=classes,
        num_train=NUM_TRAIN,
        num_test=NUM_TEST,
        seed=0,
    )
    columns = {
        "text": pa.array([text for text, _ in rows], pa.string()),
        TARGET: pa.array(labels, pa.int32()),
        RANK: pa.array(ranks, pa.int32()),
    }
    path = tmp_path_factory.mktemp("texts") / "texts.parquet"
    table = pa.table(columns).replace_schema_metadata({METADATA_KEY: index.model_dump_json()})
    pq.write_table(table, path)
    fingerprint = hashlib.sha256(path.read_bytes()).hexdigest()
    return LocalDataset(name="words", kind="archive", index_path=str(path), fingerprint=fingerprint)


@pytest.fixture
def make_job(tmp_path, dataset):
    def make(name, *, resume=None):
        options = {"dim": 32, "layers": 1, "heads": 2, "vocabulary_size": 300}
        order = Order(
            job_id="job_1",
            job_name=name,
            attempt_id="att_1",
            spec={
                "task": "text-classification",
                "dataset": "words",
                "model": {"options": options},
                "training": {"batch_size": 8, "epochs": 12, "precision": "fp32"},
            },
            dataset=dataset,
            device="cpu",
            threads=1,
            resume=resume,
            cache_dir=str(tmp_path / "cache"),
            progress_seconds=0.05,
        )
        job_dir = JobDir(tmp_path / name)
        job_dir.root.mkdir(exist_ok=True)
        job_dir.order_path.write_text(order.model_dump_json())
        return job_dir

    return make


def start(module, job_dir):
    environment = {**os.environ, "REDKILN_PARENT_PID": str(os.getpid())}
    return subprocess.Popen(
        [sys.executable, "-m", module, str(job_dir.root)], cwd=ROOT, env=environment
    )


def run(module, job_dir):
    with start(module, job_dir) as child:
        return child.wait(timeout=PATIENCE_SECONDS)


def events(job_dir, kind):
    if not job_dir.events_path.exists():
        return []
    lines = job_dir.events_path.read_text().splitlines(keepends=True)
    found = [json.loads(line) for line in lines if line.endswith("\n")]
    return [event["data"] for event in found if event["kind"] == kind]


def losses(job_dir):
    points = {}
    for data in events(job_dir, "metrics"):
        points.update(dict(data["points"].get("train/loss", [])))
    return points


def test_a_killed_text_job_goes_on_as_if_nothing_had_happened_and_exports(make_job):
    straight = make_job("straight")
    assert run("worker.trainer", straight) == EXIT_DONE

    killed = make_job("killed")
    with start("worker.trainer", killed) as child:
        ends_at = time.monotonic() + PATIENCE_SECONDS
        while not events(killed, "checkpoint"):
            assert time.monotonic() < ends_at
            time.sleep(0.01)
        child.kill()
        assert child.wait() == -signal.SIGKILL
    newest = events(killed, "checkpoint")[-1]
    resumed = make_job("killed", resume=newest["file"])
    assert run("worker.trainer", resumed) == EXIT_DONE
    assert losses(resumed) == losses(straight)

    assert run("worker.export", resumed) == EXIT_DONE
    result = events(resumed, "result")[-1]
    assert result["verified"] is True
    assert result["metrics"]["test/accuracy"] >= 0.9
    out = resumed.out_dir
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    encodings = tokenizer.encode_batch(["the boat and the tide and the sail", "barn"])
    session = onnxruntime.InferenceSession(out / "model.onnx")
    (logits,) = session.run(
        None,
        {
            "input_ids": np.array([e.ids for e in encodings]),
            "attention_mask": np.array([e.attention_mask for e in encodings]),
        },
    )
    classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    assert [classes[place] for place in logits.argmax(axis=1)] == ["sea", "land"]
