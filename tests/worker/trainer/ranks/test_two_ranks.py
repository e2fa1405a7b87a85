"""Jobs with two ranks in real processes, compared with the same jobs in one process.

The first three steps of ranks are averaged one after another, those behind them by torch's DDP
(`worker.trainer.optim.averaging`): what goes wrong is tried in both.
"""

import json
from dataclasses import replace

import pytest
import safetensors.torch
import torch

from redkiln.failure import FailureCode
from redkiln.spec.image_models import Model
from worker.checkpoints.checkpoint import CheckpointStore
from worker.jobdir import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED
from worker.process.lifetime import Stopped, StopSignal
from worker.tasks.train import run_job
from worker.trainer.models import build_model

TOLERANCE = 1e-3
"""Of losses near 1: sums of floats come in another order."""
WITHOUT_NORM = {"name": "amdnet"}


def spoil(loop, *, at, factor):
    """The loss of these steps, counted from 1, is multiplied once."""
    left = set(at)

    def loss(outputs, targets, *, own=loop._setup.loss):
        is_wrong = loop.step + 1 in left
        left.discard(loop.step + 1)
        return own(outputs, targets) * (factor if is_wrong else 1.0)

    loop._stepper.gradients._setup = replace(loop._setup, loss=loss)


def assert_both_are(answers, status):
    """Both ranks ended alike, with the same weights, scale and rate."""
    first, second = answers
    assert first == second
    assert first["status"] == status
    return first


def assert_same_curve(found, wanted):
    assert wanted
    assert found == pytest.approx(wanted, rel=TOLERANCE, abs=TOLERANCE)


def newest(job_dir):
    return CheckpointStore(job_dir.checkpoints_dir).manifests()[-1]


def test_two_ranks_with_uneven_shares_have_the_same_curve_as_one_process(
    make_job, losses, rank_pair, rehearsed
):
    # Shares of 3 and 4 samples, in micro steps of 1 and 2.
    uneven = {"batch_size": 7, "accumulation": 2, "clip_norm": 1.0, "label_smoothing": 0.1}
    alone = make_job("alone", model=WITHOUT_NORM, training=uneven)
    assert run_job(alone, StopSignal()) == EXIT_DONE
    both = make_job("both", model=WITHOUT_NORM, training=uneven)
    assert_both_are(rank_pair.make(both), EXIT_DONE)
    assert_same_curve(losses(both), losses(alone))
    one, other = (json.loads(job.trained_path.read_text()) for job in (alone, both))
    assert other["steps"] == one["steps"]
    assert other["metrics"]["val/accuracy"] == pytest.approx(
        one["metrics"]["val/accuracy"], abs=0.06
    )


def test_a_step_that_overflows_on_one_rank_is_skipped_on_both(make_job, start, losses, rank_pair):
    training = {"precision": "fp16", "epochs": 2}
    alone = make_job("alone", model=WITHOUT_NORM, training=training)
    loop, _ = start(alone)
    spoil(loop, at=[2, 8], factor=float("inf"))
    loop.run()

    both = make_job("both", model=WITHOUT_NORM, training=training)
    answers = rank_pair.make(both, factor="inf", steps=[2, 8])
    end = assert_both_are(answers, EXIT_DONE)
    assert (end["num_skipped"], end["scale"]) == (2, 2.0**14)
    assert set(losses(both)) == set(range(1, 13)) - {2, 8}
    assert losses(both) == pytest.approx(losses(alone), rel=0.02)


def test_endless_overflows_on_one_rank_fail_both_as_diverged(make_job, events, rank_pair):
    training = {"precision": "fp16", "epochs": 5}
    job_dir = make_job(model=WITHOUT_NORM, training=training)
    answers = rank_pair.make(job_dir, factor="inf", steps=list(range(5, 30)))
    assert [answer["status"] for answer in answers] == [EXIT_FAILED, EXIT_FAILED]
    (failure,) = [event["data"] for event in events(job_dir, "failure")]
    assert failure["code"] == FailureCode.DIVERGED
    assert "20 steps in a row" in failure["message"]
    assert failure["details"]["step"] == 24


@pytest.mark.parametrize("at", [2, 8])
def test_ranks_roll_back_together_if_one_loss_is_not_finite(
    make_job, start, losses, events, rank_pair, at
):
    training = {"on_divergence": "rollback", "epochs": 3, "ema": 0.9}
    alone = make_job("alone", model=WITHOUT_NORM, training=training)
    loop, setup = start(alone)
    spoil(loop, at=[at], factor=float("nan"))
    loop.run()

    both = make_job("both", model=WITHOUT_NORM, training=training)
    end = assert_both_are(rank_pair.make(both, factor="nan", steps=[at]), EXIT_DONE)
    assert (end["num_rollbacks"], end["lr"]) == (1, setup.spec.training.optimizer.lr)
    assert [event["data"]["code"] for event in events(both, "warning")] == ["rolled_back"]
    assert_same_curve(losses(both), losses(alone))


def test_a_loss_that_is_not_finite_on_one_rank_fails_both_with_the_step(
    make_job, events, rank_pair
):
    job_dir = make_job(model=WITHOUT_NORM)
    answers = rank_pair.make(job_dir, factor="nan", steps=[8])
    assert [answer["status"] for answer in answers] == [EXIT_FAILED, EXIT_FAILED]
    (failure,) = [event["data"] for event in events(job_dir, "failure")]
    assert failure["code"] == FailureCode.DIVERGED
    assert failure["details"]["checkpoint"] == newest(job_dir).name


def test_memory_that_is_short_on_one_rank_halves_the_micro_batch_of_all(
    make_job, start, losses, events, rank_pair
):
    alone = make_job("alone", model=WITHOUT_NORM)
    start(alone)[0].run()
    both = make_job("both", model=WITHOUT_NORM)
    assert_both_are(rank_pair.make(both, memory=2), EXIT_DONE)
    (warning,) = [event["data"] for event in events(both, "warning")]
    assert warning["code"] == "out_of_memory"
    assert "2 samples on each of 2 ranks, and its batch is still 8" in warning["message"]
    assert json.loads(both.trained_path.read_text())["spec"]["training"]["accumulation"] == 2
    assert_same_curve(losses(both), losses(alone))


@pytest.fixture(scope="module")
def trained_amdnet(tmp_path_factory):
    """A job's checkpoint, of an amdnet for two classes."""
    options = {"image_size": 12, "channels": 3}
    model = Model.model_validate({"name": "amdnet", "options": options})
    torch.manual_seed(8)
    path = tmp_path_factory.mktemp("source") / "checkpoint.safetensors"
    weights = build_model(model, num_classes=2).state_dict()
    safetensors.torch.save_file(weights, path, metadata={"model": model.model_dump_json()})
    return path


def test_a_backbone_thaws_at_the_same_step_on_two_ranks_as_on_one(
    make_job, start, losses, rank_pair, trained_amdnet
):
    settings = {
        "model": {"name": "job:job_0"},
        "training": {"freeze_backbone_epochs": 1, "epochs": 3, "clip_norm": 1.0},
        "order": {"initial": str(trained_amdnet)},
    }
    alone = make_job("alone", **settings)
    start(alone)[0].run()
    both = make_job("both", **settings)
    assert_both_are(rank_pair.make(both), EXIT_DONE)
    assert_same_curve(losses(both), losses(alone))


@pytest.mark.parametrize("stop_after", [4, 8])
def test_one_process_resumes_from_two_ranks(make_job, start, losses, rank_pair, stop_after):
    training = {"precision": "fp16", "ema": 0.9, "clip_norm": 1.0}
    straight = make_job("straight", model=WITHOUT_NORM, training=training)
    start(straight)[0].run()
    job_dir = make_job("job", model=WITHOUT_NORM, training=training)
    answers = rank_pair.make(job_dir, stop_after=stop_after)
    assert [answer["status"] for answer in answers] == [EXIT_STOPPED, EXIT_STOPPED]
    assert newest(job_dir).step == answers[1]["step"]
    order = {"resume": newest(job_dir).name}
    resumed = make_job("job", model=WITHOUT_NORM, training=training, order=order)
    loop, _ = start(resumed)
    assert loop.step == answers[0]["step"]
    loop.run()
    assert losses(resumed) == pytest.approx(losses(straight), rel=0.02)


def test_two_ranks_resume_from_one_process_even_after_a_broken_checkpoint(
    make_job, start, losses, rank_pair, events
):
    training = {"epochs": 3, "ema": 0.9}
    straight = make_job("straight", model=WITHOUT_NORM, training=training)
    start(straight)[0].run()
    job_dir = make_job("job", model=WITHOUT_NORM, training=training)
    loop, _ = start(job_dir, stop_after=9)
    with pytest.raises(Stopped):
        loop.run()
    path = job_dir.checkpoints_dir / newest(job_dir).name
    path.write_bytes(path.read_bytes()[:-1])
    order = {"resume": path.name}
    resumed = make_job("job", model=WITHOUT_NORM, training=training, order=order)
    assert_both_are(rank_pair.make(resumed), EXIT_DONE)
    assert [event["data"]["code"] for event in events(job_dir, "warning")] == ["checkpoint_broken"]
    assert_same_curve(losses(resumed), losses(straight))
