"""Whole text jobs in this process, on a network that is small and real."""

import json
import re

import numpy as np
import onnxruntime
import pytest
from tokenizers import Tokenizer

from redkiln.failure import FailureCode
from redkiln.predict.model import Model
from redkiln.predict.verify import verify
from tests.worker.job_dirs import load_arrays
from tests.worker.trainer.text.conftest import TINY_TEXT_MODEL, topic_splits
from worker.jobdir import EXIT_DONE, EXIT_FAILED
from worker.process.failed import TrainingFailed
from worker.process.lifetime import Stopped, StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job
from worker.trainer.text.table import open_text_table

LONG = "boat " * 40


def test_a_text_job_learns_and_becomes_a_verified_model(make_text_job, events, capsys):
    job_dir = make_text_job(
        model={**TINY_TEXT_MODEL, "interface": "embedded"},
        training={"epochs": 20, "optimizer": {"name": "adamw", "lr": 5e-3}},
    )
    assert run_job(job_dir, StopSignal()) == EXIT_DONE, events(job_dir, "failure")
    assert export_job(job_dir) == EXIT_DONE, events(job_dir, "failure")

    result = events(job_dir, "result")[-1]["data"]
    assert result["verified"] is True
    assert result["metrics"]["test/accuracy"] >= 0.9
    assert {"val/macro_f1", "test/macro_f1", "test/auc"} <= set(result["metrics"])
    scores = {b["name"]: b["metrics"] for b in result["comparison"]["baselines"]}
    assert scores["linear model on TF-IDF"]["test/accuracy"] >= 0.9
    assert scores["majority class"]["test/accuracy"] < 0.5
    names = [output.name for output in job_dir.load_outputs()]
    assert {"model.onnx", "tokenizer.json", "report.md", "confusion.png", "evaluation.json"} <= set(
        names
    )

    session = onnxruntime.InferenceSession(job_dir.out_dir / "model.onnx")
    assert [(i.name, i.type, i.shape) for i in session.get_inputs()] == [
        ("input_ids", "tensor(int64)", ["batch", "tokens"]),
        ("attention_mask", "tensor(int64)", ["batch", "tokens"]),
    ]
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["classes"]) == ["garden", "kitchen", "sea"]

    saved = load_arrays(job_dir.out_dir / "parity.npz")
    alone = {name: saved[name][:1].astype(np.int64) for name in ("input_ids", "attention_mask")}
    length = int(alone["attention_mask"].sum())
    (logits,) = session.run(None, {name: array[:, :length] for name, array in alone.items()})
    assert np.abs(logits - saved["logits"][:1]).max() < 1e-4

    _check_the_file_with_the_tokenizer(job_dir, result)
    report = (job_dir.out_dir / "report.md").read_text()
    assert "distilbert" in report
    assert "texts" in report
    assert "image" not in report
    code = re.search(r"```python\n(.*?)```", report, re.DOTALL).group(1)
    namespace = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(job_dir.out_dir)
        capsys.readouterr()
        exec(compile(code, "report.md", "exec"), namespace)
        said = namespace["predict"](
            ["the boat tide waves sail harbour", "the butter oven knead bake"]
        )
    assert capsys.readouterr().out == f"{namespace['answer']}\n"
    assert set(namespace["answer"]) == {"garden", "kitchen", "sea"}
    assert [max(one, key=one.get) for one in said] == ["sea", "kitchen"]
    assert all(sum(one.values()) == pytest.approx(1.0) for one in said)


def _check_the_file_with_the_tokenizer(job_dir, result):
    plain, path = (job_dir.out_dir / name for name in ("model.onnx", "model-text.onnx"))
    assert [(one["name"], one["misses"]) for one in result["variants"]] == [
        ("fp32", []),
        ("text", []),
    ]
    manifest = json.loads((job_dir.out_dir / "manifest.json").read_text())
    entry = manifest["variants"][1]
    assert (entry["file"], entry["agreement"]) == (path.name, 1.0)
    assert entry["details"]["library"].startswith("onnxruntime-extensions ")
    verdict = verify(path, threads=1)
    assert verdict.misses == []
    assert verdict.limits.tolerance == manifest["verification"]["gate"]["tolerance"]
    texts = ["The BOAT, tides & wäves", "x", LONG * 20, "日本語 ไทย 😀", "<|endoftext|> oven"]
    answers = [list(Model(file, threads=1).predict(texts)) for file in (plain, path)]
    for plainly, directly in zip(*answers, strict=True):
        assert directly.name == plainly.name
    # The last text has other tokens in the file, as docs/predict.md says.
    for plainly, directly in zip(*(some[:4] for some in answers), strict=True):
        assert dict(directly.scores) == pytest.approx(dict(plainly.scores), abs=1e-5)


def test_a_tokenizer_is_trained_only_on_training_texts(make_text_job, start, text_table, tmp_path):
    # Which rows of the training file are for validation follows from the labels.
    dataset = text_table(splits=topic_splits())
    table = open_text_table(dataset, validation_fraction=0.1)
    train, validation = table.rows["train"].tolist(), table.rows["validation"].tolist()
    assert train
    assert validation
    splits = topic_splits()
    for rows, word in ((train, "lighthouse"), (validation, "zebra")):
        for row in rows:
            text, label = splits["train"][row]
            splits["train"][row] = (f"{text} {word}", label)
    splits["test"] = [(f"{text} quixotic", label) for text, label in splits["test"]]

    cache_dir = tmp_path / "cache"
    options = {"dim": 16, "layers": 1, "heads": 2, "vocabulary_size": 2000}
    start(
        make_text_job(
            dataset=text_table(splits=splits),
            model={"options": options},
            order={"cache_dir": str(cache_dir)},
        )
    )
    (path,) = cache_dir.glob("**/tokenizer.json")
    tokenizer = Tokenizer.from_file(str(path))
    # A known word is one token, in addition to the first and the last.
    lengths = {
        word: len(tokenizer.encode(word).ids) for word in ("lighthouse", "zebra", "quixotic")
    }
    assert lengths["lighthouse"] == 3
    assert lengths["zebra"] > 3
    assert lengths["quixotic"] > 3


@pytest.mark.parametrize("stop_after", [3, 13])
def test_a_resumed_text_run_is_the_uninterrupted_one(make_text_job, start, losses, stop_after):
    straight = make_text_job("straight")
    loop, _ = start(straight)
    loop.run()

    first = make_text_job("first")
    with pytest.raises(Stopped):
        start(first, stop_after=stop_after)[0].run()
    newest = sorted(path.name for path in first.checkpoints_dir.glob("*.safetensors"))[-1]
    second = make_text_job("first", order={"resume": newest.removesuffix(".safetensors")})
    resumed, _ = start(second)
    resumed.run()
    assert losses(second) == losses(straight)


@pytest.mark.parametrize("from_call", [1, 7])
def test_running_out_of_memory_at_any_step_does_not_change_the_curve(
    make_text_job, start, losses, run_out_of_memory, from_call
):
    options = {"dim": 32, "layers": 1, "heads": 2, "vocabulary_size": 300, "dropout": 0.0}
    settings = {"model": {"options": options}, "training": {"epochs": 2, "batch_size": 8}}
    whole = make_text_job("whole", **settings)
    loop, _ = start(whole)
    loop.run()
    small = make_text_job("small", **settings)
    other, setup = start(small)
    run_out_of_memory(setup.model, limit=3, from_call=from_call)
    other.run()
    assert setup.spec.training.accumulation == 4
    assert losses(small) == pytest.approx(losses(whole), rel=1e-4)
    assert other.best_metrics == pytest.approx(loop.best_metrics, rel=1e-3)


def test_every_auto_is_resolved_and_stays_resolved(make_text_job, start):
    job_dir = make_text_job(
        model={"options": {"dim": 32, "layers": 1, "heads": 2}},
        training={"batch_size": "auto", "precision": "auto", "epochs": 1},
    )
    _, setup = start(job_dir)
    spec = setup.spec
    assert spec.model.name == "distilbert"
    assert spec.model.options.max_length == 256
    assert spec.model.config["dim"] == 32
    assert spec.training.batch_size == 8
    assert spec.training.precision in ("fp32", "bf16")
    assert "auto" not in spec.training.model_dump_json()
    assert spec.training.schedule.warmup_fraction == 0.1
    again = make_text_job(
        "again",
        model=json.loads(spec.model.model_dump_json()),
        training=json.loads(spec.training.model_dump_json(exclude={"steps"})),
    )
    assert start(again)[1].spec.model == spec.model


def test_truncated_texts_and_texts_without_words_are_counted(
    make_text_job, start, events, text_table
):
    texts = [("boat sail", 0), (LONG, 0), ("", 0), ("bake", 1), ("\u200b", 1), ("oven salt", 1)]
    dataset = text_table(splits={"train": texts * 4, "test": texts}, classes=["sea", "kitchen"])
    job_dir = make_text_job(
        dataset=dataset,
        model={"options": {"dim": 16, "layers": 1, "heads": 2, "max_length": 16}},
        training={"epochs": 1, "batch_size": 4},
    )
    loop, _ = start(job_dir)
    loop.run()
    warnings = {
        event["data"]["code"]: event["data"]["message"] for event in events(job_dir, "warning")
    }
    assert warnings["texts_cut"].startswith("5 of 30 texts are longer than 16 tokens")
    assert warnings["texts_empty"].startswith("10 of 30 texts have no token")


def test_without_a_validation_split_the_last_epoch_counts(make_text_job, start):
    job_dir = make_text_job(training={"epochs": 1, "batch_size": 8, "validation_fraction": 0.0})
    loop, setup = start(job_dir)
    loop.run()
    assert setup.evaluate is None
    assert setup.counts["validation"] == 0
    assert len(setup.preview()) == 24


@pytest.mark.parametrize(
    ("model", "words", "pointer"),
    [
        ({"name": "elektra"}, "did you mean 'electra'", "/model/name"),
        (
            {"name": "distilbert", "config": {"n_head": 2}},
            "did you mean 'n_heads'",
            "/model/config/n_head",
        ),
        (
            {"config": {"max_position_embeddings": 8}},
            "lower model.options.max_length",
            "/model/options/max_length",
        ),
        ({"pretrained": "/etc/nothing"}, "models folder", "/model/pretrained"),
    ],
)
def test_an_unavailable_model_is_refused_with_a_pointer(
    make_text_job, start, model, words, pointer
):
    with pytest.raises(TrainingFailed, match=words) as caught:
        start(make_text_job(model=model))
    assert caught.value.failure.code is FailureCode.BAD_INPUT
    assert caught.value.failure.details["pointer"] == pointer


def test_a_loss_that_is_not_finite_fails_the_job_with_its_step(make_text_job, events):
    job_dir = make_text_job(
        training={
            "epochs": 4,
            "batch_size": 8,
            "precision": "fp32",
            "optimizer": {"name": "sgd", "lr": 100.0, "momentum": 0.99},
            "schedule": {"name": "constant", "warmup_fraction": 0.0},
        }
    )
    assert run_job(job_dir, StopSignal()) == EXIT_FAILED
    assert events(job_dir, "failure")[-1]["data"]["code"] == "diverged"


def test_a_table_without_texts_is_refused(make_text_job, start, text_table):
    dataset = text_table(splits={"train": [("boat", 0)] * 4, "test": []}, classes=["sea", "air"])
    with pytest.raises(TrainingFailed, match="3 training texts and 0 test texts"):
        start(make_text_job(dataset=dataset))
    dataset.index_path = "/nowhere.parquet"
    with pytest.raises(TrainingFailed, match="cannot be read") as caught:
        start(make_text_job(dataset=dataset))
    assert caught.value.failure.code is FailureCode.DATASET_UNAVAILABLE
