"""A text job through the trainer's and the export's own processes."""

import hashlib
import json
import signal

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

from redkiln.datasets import rank_within_classes
from redkiln.tables import METADATA_KEY, RANK, TARGET, Column, TableIndex
from tests.integration.trainer.runs import (
    EXPORT,
    PATIENCE_SECONDS,
    TRAINER,
    events,
    losses,
    write_job,
)
from tests.waiting import wait_for
from worker.jobdir import EXIT_DONE, LocalDataset

pytestmark = pytest.mark.integration

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
def make_job(tmp_path, dataset, trainer_cache):
    def make(name, *, resume=None):
        options = {"dim": 32, "layers": 1, "heads": 2, "vocabulary_size": 300}
        spec = {
            "task": "text-classification",
            "dataset": "words",
            "model": {"options": options},
            "training": {"batch_size": 8, "epochs": 12, "precision": "fp32"},
        }
        cache_dir = str(trainer_cache)
        return write_job(tmp_path / name, spec, dataset=dataset, resume=resume, cache_dir=cache_dir)

    return make


def test_a_killed_text_job_goes_on_as_if_nothing_had_happened_and_exports(make_job, start):
    straight = make_job("straight")
    assert start(*TRAINER, straight.root).wait(PATIENCE_SECONDS) == EXIT_DONE

    killed = make_job("killed")
    child = start(*TRAINER, killed.root)
    wait_for(lambda: events(killed, "checkpoint"), seconds=PATIENCE_SECONDS)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    newest = events(killed, "checkpoint")[-1]
    resumed = make_job("killed", resume=newest["file"])
    assert start(*TRAINER, resumed.root).wait(PATIENCE_SECONDS) == EXIT_DONE
    assert losses(resumed) == losses(straight)

    assert start(*EXPORT, resumed.root).wait(PATIENCE_SECONDS) == EXIT_DONE
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
