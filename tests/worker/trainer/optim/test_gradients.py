"""Memory that runs out in the middle of training, on a device that is made to have too little."""

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from redkiln.failure import FailureCode
from worker.checkpoints.checkpoint import CheckpointStore
from worker.jobdir import EXIT_FAILED
from worker.process.failed import TrainingFailed
from worker.process.lifetime import StopSignal
from worker.tasks.train import run_job
from worker.trainer.models.builtin.amdnet import AmdNet
from worker.trainer.ranks.distributed import Ranks


@pytest.fixture
def run(start, run_out_of_memory):
    """Runs a job, on a device with as little memory as the keyword arguments say."""

    def run(job_dir, **memory):
        loop, setup = start(job_dir)
        if memory:
            run_out_of_memory(setup.model, **memory)
        loop.run()
        return loop, setup

    return run


@pytest.mark.parametrize("from_call", [1, 4])
@pytest.mark.parametrize(("limit", "parts"), [(4, 2), (2, 4), (1, 8)])
def test_a_batch_is_split_until_it_fits_without_changing_the_curve(
    make_job, run, losses, events, limit, parts, from_call
):
    model = {"name": "amdnet"}
    undisturbed = make_job("undisturbed", model=model)
    run(undisturbed)
    job_dir = make_job("small", model=model)
    _, setup = run(job_dir, limit=limit, from_call=from_call)
    assert losses(job_dir) == pytest.approx(losses(undisturbed), rel=1e-4)
    assert setup.spec.training.accumulation == parts
    assert setup.spec.training.batch_size == 8
    resolved = events(job_dir, "resolved")
    assert resolved[-1]["data"]["spec"]["training"]["accumulation"] == parts
    warnings = [e["data"] for e in events(job_dir, "warning")]
    assert [w["code"] for w in warnings] == ["out_of_memory"] * (parts.bit_length() - 1)
    assert f"{parts} micro steps of {8 // parts} samples" in warnings[-1]["message"]
    assert warnings[0]["message"].startswith(f"step {from_call}:")


def test_a_warning_says_when_batch_norm_uses_micro_steps(make_job, run, events):
    job_dir = make_job(model={"name": "mnist-cnn"})
    run(job_dir, limit=4)
    (warning,) = [e["data"] for e in events(job_dir, "warning")]
    assert "batch norm now uses one micro step" in warning["message"]


def test_recomputed_activations_turn_compiling_off(make_job, start, events, run_out_of_memory):
    job_dir = make_job(model={"name": "amdnet"})
    loop, setup = start(job_dir)
    setup.spec.training.compile = "default"
    # One sample at once does not fit before the activations are computed twice: 2, 4, 8 parts.
    run_out_of_memory(setup.model, limit=0, until_call=4)
    loop.run()
    training = events(job_dir, "resolved")[-1]["data"]["spec"]["training"]
    assert (training["gradient_checkpointing"], training["compile"]) == ("on", "off")


def test_a_resumed_run_does_not_run_out_again(make_job, start, events, run_out_of_memory):
    model = {"name": "amdnet"}
    first = make_job("job", model=model, training={"epochs": 4})
    loop, setup = start(first)
    run_out_of_memory(setup.model, limit=4)
    loop.advance(9)
    newest = CheckpointStore(first.checkpoints_dir).manifests()[-1]
    before = len(events(first, "warning"))
    second = make_job("job", model=model, training={"epochs": 4}, order={"resume": newest.name})
    resumed, setup = start(second)
    run_out_of_memory(setup.model, limit=4)
    resumed.run()
    assert setup.spec.training.accumulation == 2
    assert len(events(second, "warning")) == before


def hold_less(loop):
    """Memory that holds single samples only where their activations are computed twice."""

    def limited(outputs, targets, *, own=loop._setup.loss):
        if not is_recomputing(loop._setup.model):
            raise torch.OutOfMemoryError("HIP out of memory")
        return own(outputs, targets)

    loop._stepper.gradients._setup = replace(loop._setup, loss=limited)


def is_recomputing(model):
    return any("forward" in vars(module) for module in model.modules())


@pytest.mark.parametrize("from_step", [0, 3])
def test_activations_are_recomputed_if_the_smallest_part_does_not_fit(
    make_job, start, run, losses, events, from_step
):
    model = {"name": "amdnet"}
    undisturbed = make_job("undisturbed", model=model, training={"epochs": 4})
    run(undisturbed)
    job_dir = make_job("small", model=model, training={"epochs": 4})
    loop, setup = start(job_dir)
    assert setup.spec.training.gradient_checkpointing == "off"
    loop.advance(from_step)
    hold_less(loop)
    loop.advance(9 - from_step)
    training = setup.spec.training
    assert (training.accumulation, training.gradient_checkpointing) == (8, "on")
    warnings = [e["data"] for e in events(job_dir, "warning")]
    assert [w["code"] for w in warnings] == ["out_of_memory"] * 4
    assert "recomputed instead of kept" in warnings[-1]["message"]
    resolved = events(job_dir, "resolved")[-1]["data"]["spec"]["training"]
    assert resolved["gradient_checkpointing"] == "on"

    newest = CheckpointStore(job_dir.checkpoints_dir).manifests()[-1]
    order = {"resume": newest.name}
    resumed, _ = start(make_job("small", model=model, training={"epochs": 4}, order=order))
    hold_less(resumed)
    resumed.run()
    assert len(events(job_dir, "warning")) == 4
    assert losses(job_dir) == pytest.approx(losses(undisturbed), rel=1e-4)


def test_running_out_of_memory_fails_if_recomputing_is_off(make_job, start):
    job_dir = make_job(model={"name": "amdnet"}, training={"gradient_checkpointing": "off"})
    loop, setup = start(job_dir)
    hold_less(loop)
    with pytest.raises(torch.OutOfMemoryError):
        loop.advance(1)
    assert not is_recomputing(setup.model)


@pytest.mark.parametrize(("model", "limit"), [("amdnet", 0), ("mnist-cnn", 1)])
def test_a_batch_that_cannot_be_split_further_fails_with_advice(
    make_job, events, monkeypatch, model, limit
):
    forward = torch.nn.functional.cross_entropy

    def limited(outputs, *rest, **options):
        if len(outputs) > limit and torch.is_grad_enabled():
            raise torch.OutOfMemoryError("HIP out of memory")
        return forward(outputs, *rest, **options)

    monkeypatch.setattr("torch.nn.functional.cross_entropy", limited)
    job_dir = make_job(model={"name": model})
    assert run_job(job_dir, StopSignal()) == EXIT_FAILED
    (failure,) = [e["data"] for e in events(job_dir, "failure")]
    assert failure["code"] == FailureCode.OUT_OF_MEMORY
    assert "smaller batch_size" in failure["message"]


@pytest.mark.parametrize("is_careful", [False, True])
def test_a_rank_that_runs_out_of_memory_for_good_fails_by_name(make_job, start, is_careful):
    loop, _ = start(make_job(model={"name": "amdnet"}))
    gradients = loop._stepper.gradients
    gradients._ranks = Ranks(1, 2)
    gradients._averaging = SimpleNamespace(is_careful=is_careful, begin=lambda forward: forward)
    gradients._can_split = lambda _: not is_careful
    gradients._may_recompute = False
    gradients._accumulate = Mock(side_effect=torch.OutOfMemoryError("HIP out of memory"))
    with pytest.raises(TrainingFailed) as caught:
        gradients.compute(torch.zeros(4, 3, 12, 12), torch.zeros(4))
    failure = caught.value.failure
    assert failure.code == FailureCode.OUT_OF_MEMORY
    assert "out of memory on cpu (rank 1)" in failure.message
    # The first steps of another attempt find again what fits; if they found it here, nothing does.
    assert failure.retryable is not is_careful


def test_memory_of_the_failed_attempt_is_freed(make_job, start, run_out_of_memory):
    job_dir = make_job(model={"name": "amdnet"})
    loop, setup = start(job_dir)
    assert isinstance(setup.model, AmdNet)
    seen = []

    def note(_module, _inputs):
        seen.append(all(p.grad is None for p in setup.model.parameters()))

    setup.model.register_forward_pre_hook(note)
    run_out_of_memory(setup.model, limit=4, from_call=2)
    loop.advance(2)
    # Step 1 whole, step 2 whole (runs out), then step 2 in parts from fresh gradients.
    assert seen == [True, True, True, False]
