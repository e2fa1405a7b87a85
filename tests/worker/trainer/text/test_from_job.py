"""Text jobs that start from what another text job left, over the whole way to a checked model."""

import json
import shutil
from unittest.mock import patch

import pytest
import safetensors
import safetensors.torch
import torch
from tokenizers import Tokenizer

from redkiln.failure import FailureCode
from tests.worker.job_dirs import write_job
from tests.worker.trainer.text.conftest import TOPICS, topic_splits, write_text_table
from worker.jobdir import EXIT_DONE
from worker.process.failed import TrainingFailed
from worker.process.lifetime import Stopped, StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job

pytestmark = pytest.mark.usefixtures("rehearsed")

MAX_LENGTH = 20
SPEC = {
    "task": "text-classification",
    "dataset": "topics",
    "model": {
        "options": {
            "dim": 16,
            "layers": 1,
            "heads": 2,
            "vocabulary_size": 300,
            "max_length": MAX_LENGTH,
            "lowercase": False,
        }
    },
    "training": {"epochs": 1, "batch_size": 8, "precision": "fp32"},
}
FEWER = sorted(TOPICS)[:2]


def run_through(job_dir):
    assert run_job(job_dir, StopSignal()) == EXIT_DONE, job_dir.events_path.read_text()[-2000:]
    assert export_job(job_dir) == EXIT_DONE, job_dir.events_path.read_text()[-2000:]


@pytest.fixture(scope="module")
def source(tmp_path_factory, cache_dir):
    """The folder of a job that was trained on three topics, with all its files."""
    folder = tmp_path_factory.mktemp("source")
    dataset = write_text_table(folder / "a.parquet", topic_splits(), classes=sorted(TOPICS))
    job_dir = write_job(folder / "job", SPEC, dataset=dataset, cache_dir=str(cache_dir))
    with patch("worker.trainer.run.is_rehearsed", return_value=True):
        run_through(job_dir)
    return job_dir.out_dir


@pytest.fixture
def fewer_topics(text_table):
    splits = {
        split: [(f"{text} please", label) for text, label in rows if label < len(FEWER)]
        for split, rows in topic_splits(train=24).items()
    }
    return text_table("fewer.parquet", splits=splits, classes=FEWER)


@pytest.fixture
def make_successor(make_text_job, source):
    def make(name="job", *, model=None, order=None, **options):
        order = {"initial": str(source / "checkpoint.safetensors"), **(order or {})}
        job_dir = make_text_job(name, order=order, **options)
        written = json.loads(job_dir.order_path.read_text())
        # What the fixture has for networks from scratch would not be written here.
        written["spec"]["model"] = model or "job:job_1"
        job_dir.order_path.write_text(json.dumps(written))
        return job_dir

    return make


def weights(source):
    return safetensors.torch.load_file(source / "checkpoint.safetensors")


def said(events, job_dir):
    return [event["data"]["text"] for event in events(job_dir, "message")]


def failure_of(start, job_dir):
    with pytest.raises(TrainingFailed) as caught:
        start(job_dir)
    assert caught.value.failure.code is FailureCode.BAD_INPUT
    return caught.value.failure.message, caught.value.failure.details["pointer"]


def test_a_checkpoint_holds_everything_another_job_needs(source):
    with safetensors.safe_open(source / "checkpoint.safetensors", framework="pt") as file:
        metadata = file.metadata()
    assert metadata["task"] == "text-classification"
    assert metadata["reading"] == (source / "tokenizer.json").read_text()
    assert json.loads(metadata["model"])["config"]["model_type"] == "distilbert"


def test_it_starts_from_the_other_jobs_network_tokenizer_and_length_with_a_new_head(
    make_successor, start, source, fewer_topics, events
):
    job_dir = make_successor(dataset=fewer_topics)
    _, setup = start(job_dir)
    theirs, mine = weights(source), setup.model.state_dict()
    new = {"network.classifier.weight", "network.classifier.bias"}
    assert {name for name in theirs if theirs[name].shape != mine[name].shape} == new
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs if name not in new)
    resolved = setup.spec.model
    assert (resolved.name, resolved.pretrained) == ("distilbert", "job:job_1")
    assert resolved.initial_weights.startswith("sha256 ")
    assert resolved.options.max_length == MAX_LENGTH
    assert (resolved.config["dim"], resolved.config["num_labels"]) == (16, 2)
    tokenizer = Tokenizer.from_str(setup.reading)
    other = Tokenizer.from_file(str(source / "tokenizer.json"))
    assert tokenizer.get_vocab() == other.get_vocab()
    assert tokenizer.encode("The BOAT").ids == other.encode("The BOAT").ids
    text = (
        "training starts from job:job_1; "
        "new weights: network.classifier.bias, network.classifier.weight"
    )
    assert text in said(events, job_dir)


def test_a_checkpoint_other_than_the_resolved_one_is_refused(make_successor, start):
    model = {"pretrained": "job:job_1", "initial_weights": "sha256 of another"}
    message, pointer = failure_of(start, make_successor(model=model))
    assert pointer == "/model/initial_weights"
    assert "the checkpoint of job_1" in message


def test_the_head_is_kept_for_the_same_number_of_classes(make_successor, start, source, events):
    job_dir = make_successor()
    _, setup = start(job_dir)
    theirs, mine = weights(source), setup.model.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
    assert "training starts from job:job_1" in said(events, job_dir)


def test_it_exports_verified_and_another_job_can_start_from_it(
    make_successor, source, fewer_topics, events, start
):
    job_dir = make_successor(dataset=fewer_topics, training={"epochs": 1, "batch_size": 8})
    run_through(job_dir)
    assert events(job_dir, "result")[-1]["data"]["verified"] is True
    assert (
        "Initial weights and tokenizer: `job:job_1`" in (job_dir.out_dir / "report.md").read_text()
    )
    third = make_successor(
        "third", order={"initial": str(job_dir.out_dir / "checkpoint.safetensors")}
    )
    _, setup = start(third)
    assert setup.spec.model.config["dim"] == 16
    assert Tokenizer.from_str(setup.reading).get_vocab_size() == 300


@pytest.mark.parametrize("stop_after", [3, 13])
def test_a_resumed_run_is_the_uninterrupted_one_without_the_other_jobs_files(
    make_successor, start, losses, fewer_topics, tmp_path, stop_after
):
    training = {"epochs": 3, "batch_size": 4, "freeze_backbone_epochs": 1}
    straight = make_successor("straight", dataset=fewer_topics, training=training)
    start(straight)[0].run()
    first = make_successor("first", dataset=fewer_topics, training=training)
    with pytest.raises(Stopped):
        start(first, stop_after=stop_after)[0].run()
    newest = max(path.stem for path in first.checkpoints_dir.glob("*.safetensors"))
    # Another worker, after the other job was deleted: neither its weights nor any tokens are there.
    elsewhere = {"resume": newest, "initial": None, "cache_dir": str(tmp_path / "elsewhere")}
    second = make_successor("first", dataset=fewer_topics, training=training, order=elsewhere)
    start(second)[0].run()
    assert losses(second) == losses(straight)


def test_the_export_needs_neither_the_other_job_nor_the_training_tokens(
    make_successor, events, tmp_path
):
    cache = tmp_path / "cache"
    job_dir = make_successor(
        training={"epochs": 1, "batch_size": 8}, order={"cache_dir": str(cache)}
    )
    assert run_job(job_dir, StopSignal()) == EXIT_DONE, events(job_dir, "failure")
    shutil.rmtree(cache / "tokens")
    order = job_dir.load_order().model_copy(update={"initial": None})
    job_dir.order_path.write_text(order.model_dump_json())
    assert export_job(job_dir) == EXIT_DONE, events(job_dir, "failure")
    assert events(job_dir, "result")[-1]["data"]["verified"] is True


def test_a_resolved_spec_that_is_submitted_again_starts_from_the_same_weights(
    make_successor, start, source
):
    _, setup = start(make_successor())
    again = make_successor("again", model=setup.spec.model.model_dump(mode="json"))
    _, other = start(again)
    assert other.spec.model == setup.spec.model
    theirs = weights(source)
    assert all(torch.equal(v, theirs[k]) for k, v in other.model.state_dict().items())


def test_the_spec_overrides_options_that_weights_do_not_depend_on(make_successor, start):
    model = {"name": "job:job_1", "config": {"dropout": 0.3}, "options": {"max_length": 8}}
    _, setup = start(make_successor(model=model))
    assert setup.spec.model.config["dropout"] == 0.3
    assert setup.spec.model.options.max_length == 8
    assert max(len(row) for row in setup.batches.get(0, 0)[0][0].tolist()) <= 8


@pytest.mark.parametrize(
    ("model", "words", "pointer"),
    [
        ({"pretrained": "job:job_1", "name": "bert"}, "trained a distilbert", "/model/name"),
        (
            {"pretrained": "job:job_1", "config": {"n_head": 2}},
            "did you mean 'n_heads'",
            "/model/config/n_head",
        ),
        (
            {"pretrained": "job:job_1", "config": {"dim": 32}},
            "remove the sizes of the network from model.config",
            "/model/config",
        ),
        (
            {"pretrained": "job:job_1", "options": {"max_length": 500}},
            "lower model.options.max_length",
            "/model/options/max_length",
        ),
    ],
)
def test_a_spec_that_does_not_fit_the_weights_is_refused_with_a_pointer(
    make_successor, start, model, words, pointer
):
    message, place = failure_of(start, make_successor(model=model))
    assert words in message
    assert place == pointer


def change_metadata(source, path, change):
    with safetensors.safe_open(source / "checkpoint.safetensors", framework="pt") as file:
        metadata = file.metadata()
    change(metadata)
    safetensors.torch.save_file(weights(source), path, metadata=metadata)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda found: found.pop("reading"), "train it again"),
        (lambda found: found.update(reading="{}"), "the tokenizer of job:job_1 cannot be read"),
        (lambda found: found.update(model="{'a'}"), "is of an unknown model"),
        (lambda found: found.update(task="image-classification"), "trained for image-class"),
    ],
)
def test_an_unusable_checkpoint_of_another_job_is_refused(
    make_successor, start, source, tmp_path, change, words
):
    path = tmp_path / "other.safetensors"
    change_metadata(source, path, change)
    message, pointer = failure_of(start, make_successor(order={"initial": str(path)}))
    assert words in message
    assert pointer == "/model/pretrained"


def test_a_deleted_job_is_reported_as_gone(make_successor, start):
    message, pointer = failure_of(start, make_successor(order={"initial": None}))
    assert "job_1 no longer exists" in message
    assert pointer == "/model/pretrained"
