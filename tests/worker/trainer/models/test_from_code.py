"""Users' own networks: what they receive, what is checked, and the error that names the line."""

import json
import sys

import pytest
import torch

from redkiln.failure import FailureCode
from tests.worker.trainer.memory import train_with_little_memory
from tests.worker.trainer.models.own_code import own, pack
from worker.checkpoints.checkpoint import CheckpointStore
from worker.process.failed import TrainingFailed
from worker.process.lifetime import Stopped, StopSignal
from worker.tasks.train import run_job

pytestmark = pytest.mark.usefixtures("rehearsed")

EPOCH = {"epochs": 1, "batch_size": 20}


@pytest.fixture
def make_own(make_job, tmp_path, monkeypatch):
    # A job imports its code in a separate process.
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "blocks", raising=False)

    def make(model=None, *, name="job", files=None, training=EPOCH, **order):
        folder = tmp_path / f"{name}-sent"
        bundle = folder / "bundle.tar" if folder.exists() else pack(folder, **(files or {}))
        order["bundle_path"] = str(bundle)
        return make_job(name, model=model or own(), training=training, order=order)

    return make


def refusal(start, job_dir):
    with pytest.raises(TrainingFailed) as caught:
        start(job_dir)
    assert caught.value.failure.code is FailureCode.BAD_INPUT
    return caught.value.failure


def test_an_own_class_learns(make_own, events):
    job_dir = make_own(training={"epochs": 4, "batch_size": 10, "optimizer": {"lr": 0.02}})
    assert run_job(job_dir, StopSignal()) == 0, job_dir.events_path.read_text()[-2000:]
    trained = json.loads(job_dir.trained_path.read_text())
    assert trained["metrics"]["val/accuracy"] > 0.5
    model = events(job_dir, "resolved")[-1]["data"]["spec"]["model"]
    assert (model["class"], model["name"]) == ("Net", "Net")


def test_the_data_gives_the_class_its_arguments(make_own, start):
    _, setup = start(make_own(own(arguments={"width": 6})))
    assert setup.model.last.weight.shape == (3, 6)
    assert setup.model.body[0].weight.shape == (6, 3, 3, 3)


def test_an_own_loss_is_what_training_computes(make_own, start):
    _, setup = start(make_own(own(loss="loss")))
    logits, labels = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    assert setup.loss(logits, labels) == torch.nn.functional.multi_margin_loss(logits, labels)


def test_own_preprocessing_replaces_the_normalisation(make_own, start):
    _, setup = start(make_own(own(preprocess="preprocess")))
    images, _ = setup.batches.get(0, 0)
    assert images.min() >= 0
    assert images.max() <= 1
    seen = []
    setup.model.body.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0]))
    setup.model(images)
    assert torch.equal(seen[0], images * 2 - 1)


@pytest.mark.parametrize(
    ("model", "files", "pointer", "texts"),
    [
        (own("Nett"), {}, "/model/class", ["no class 'Nett'", "did you mean 'Net'"]),
        (own(file="nets.py"), {}, "/model/file", ["no file 'nets.py'", "did you mean 'net.py'"]),
        (own("Broken"), {}, "/model/class", ["net.py, line 17, in forward", "evaluation mode"]),
        (own("NoClasses"), {}, "/model/class", ["returns shape (2, 4, 10, 10)", "num_classes"]),
        (own("block"), {}, "/model/class", ["no class 'block'"]),
        (own(arguments={"widht": 3}), {}, "/model/arguments/widht", ["did you mean 'width'"]),
        (own(arguments={"width": "a"}), {}, "/model/arguments", ["blocks.py, line 4, in block"]),
        (own(loss="no_loss"), {}, "/model/loss", ["must return the mean loss"]),
        (own(loss="losses"), {}, "/model/loss", ["did you mean 'loss'"]),
        (own(preprocess="prepare"), {}, "/model/preprocess", ["no function 'prepare'"]),
        (own(), {"net": "import torch\nx = = 1"}, "/model/file", ["net.py, line 2"]),
        (own(), {"blocks": "import nothing_like_it"}, "/model/file", ["blocks.py, line 1"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_its_place(make_own, start, model, files, pointer, texts):
    failure = refusal(start, make_own(model, files=files))
    assert failure.details["pointer"] == pointer
    for text in texts:
        assert text in failure.message


def test_an_error_during_training_names_the_line_too(make_own, events):
    job_dir = make_own(own("Late"))
    assert run_job(job_dir, StopSignal()) == 3
    failure = events(job_dir, "failure")[0]["data"]
    assert failure["code"] == "bad_input"
    assert "net.py, line 26, in forward" in failure["message"]
    assert "only small batches" in failure["message"]


def test_an_interrupted_run_resumes_exactly(make_own, start, losses):
    two = {"epochs": 2, "batch_size": 10}
    whole = make_own(name="whole", training=two)
    start(whole)[0].run()
    job_dir = make_own(training=two)
    with pytest.raises(Stopped):
        start(job_dir, stop_after=3)[0].run()
    newest = CheckpointStore(job_dir.checkpoints_dir).manifests()[-1]
    assert newest.step == 3
    start(make_own(training=two, resume=newest.name))[0].run()
    assert losses(job_dir) == losses(whole)


def test_own_code_gets_an_automatic_batch_size_and_trains_in_bf16(make_own, start, losses):
    job_dir = make_own(training={"epochs": 1, "batch_size": "auto", "precision": "bf16"})
    loop, setup = start(job_dir)
    loop.run()
    assert isinstance(setup.spec.training.batch_size, int)
    assert setup.spec.training.precision == "bf16"
    assert all(loss == loss for loss in losses(job_dir).values())
    assert {p.dtype for p in setup.model.parameters()} == {torch.float32}


def test_a_batch_of_own_code_is_split_when_memory_runs_out(
    make_own, start, losses, events, run_out_of_memory
):
    files = {"blocks": BLOCKS_WITHOUT_NORM}
    train_with_little_memory(
        lambda name, training: make_own(name=name, files=files, training=training),
        start,
        losses,
        run_out_of_memory,
        events=events,
        training={"epochs": 2, "batch_size": 8},
    )


BLOCKS_WITHOUT_NORM = """\
from torch import nn

def block(channels, width):
    return nn.Sequential(nn.Conv2d(channels, width, 3), nn.ReLU())
"""
