import json

import pytest
import torch

from worker.checkpoints.checkpoint import CheckpointStore
from worker.process.failed import TrainingFailed
from worker.process.lifetime import Stopped, StopSignal
from worker.tasks import image_classification
from worker.tasks.train import run_job


def weights(setup):
    return {name: tensor.clone() for name, tensor in setup.model.state_dict().items()}


def same(left, right):
    return all(torch.equal(left[name], right[name]) for name in left)


def test_the_same_seed_makes_the_same_run(make_job, start, losses):
    runs = []
    for name in ("one", "two"):
        job_dir = make_job(name)
        loop, setup = start(job_dir)
        loop.run()
        runs.append((losses(job_dir), weights(setup)))
    assert len(runs[0][0]) == 12
    assert runs[0][0] == runs[1][0]
    assert same(runs[0][1], runs[1][1])


def test_another_seed_makes_another_run(make_job, start, losses):
    curves = []
    for name, seed in (("one", 0), ("two", 1), ("again", 1)):
        job_dir = make_job(name, training={"seed": seed})
        start(job_dir)[0].advance(2)
        curves.append(losses(job_dir))
    one, two, again = curves
    assert set(one) == {1, 2}
    assert all(one[step] != two[step] for step in one)
    assert two == again


@pytest.mark.parametrize("stop_after", [1, 4, 6, 7])
@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "adamw"},
        {"optimizer": "sgd", "schedule": "one-cycle"},
        {"optimizer": "muon", "ema": 0.9, "clip_norm": 0.5},
    ],
    ids=["adamw", "sgd", "muon with ema"],
)
def test_a_resumed_run_is_the_uninterrupted_one(make_job, start, losses, stop_after, settings):
    training = {"epochs": 2, **settings}
    straight = make_job("straight", training=training)
    loop, setup = start(straight)
    loop.run()

    first = make_job("first", training=training)
    interrupted, _ = start(first, stop_after=stop_after)
    with pytest.raises(Stopped):
        interrupted.run()
    found = losses(first)
    assert max(found) == stop_after
    newest = CheckpointStore(first.checkpoints_dir).manifests()[-1]
    assert newest.step == stop_after

    second = make_job("first", training=training, order={"resume": newest.name})
    resumed, resumed_work = start(second)
    assert resumed.step == stop_after
    resumed.run()
    assert losses(second) == losses(straight)
    assert resumed.history.series == loop.history.series
    assert same(weights(resumed_work), weights(setup))


FALLING = {
    "step": {"name": "step", "every": 2, "gamma": 0.1},
    "exponential": {"name": "exponential", "gamma": 0.4},
    "plateau": {"name": "plateau", "patience": 0, "gamma": 0.1},
}
"""Schedules whose rate depends on what came before: epochs, or the losses after them."""


@pytest.mark.parametrize("stop_after", [12, 19])
@pytest.mark.parametrize("name", FALLING)
def test_a_resumed_schedule_falls_like_the_uninterrupted_one(
    make_job, start, losses, name, stop_after
):
    # With such a rate the loss rises after some epochs.
    optimizer = {"name": "sgd", "lr": 2.0, "momentum": 0.0}
    training = {"epochs": 6, "optimizer": optimizer, "schedule": FALLING[name]}
    straight = make_job("straight", training=training)
    loop, setup = start(straight)
    loop.run()
    assert loop._stepper.optimizer.param_groups[0]["lr"] < 2.0, loop.history.series["val/loss"]

    first = make_job("first", training=training)
    interrupted, _ = start(first, stop_after=stop_after)
    with pytest.raises(Stopped):
        interrupted.run()
    newest = CheckpointStore(first.checkpoints_dir).manifests()[-1]
    second = make_job("first", training=training, order={"resume": newest.name})
    resumed, resumed_work = start(second)
    resumed.run()
    assert losses(second) == losses(straight)
    assert resumed.history.series == loop.history.series
    assert same(weights(resumed_work), weights(setup))


def test_a_finishing_run_scores_its_checkpoint_and_trains_no_further(make_job, start, losses):
    job_dir = make_job(training={"epochs": 3})
    interrupted, _ = start(job_dir, stop_after=8)
    with pytest.raises(Stopped):
        interrupted.run()
    store = CheckpointStore(job_dir.checkpoints_dir)
    assert store.manifests()[-1].metrics == {}

    resume = store.manifests()[-1].name
    finishing, _ = start(make_job(training={"epochs": 3}, order=finish_from(resume)))
    finishing.run()
    assert (finishing.step, finishing.is_done) == (8, True)
    assert max(losses(job_dir)) == 8
    assert "val/loss" in store.manifests()[-1].metrics
    assert store.find_best() is not None


def test_a_finishing_run_without_a_checkpoint_fails(make_job, start):
    with pytest.raises(TrainingFailed, match="no readable checkpoint to export"):
        start(make_job(order={"is_finishing": True}))


def finish_from(resume):
    return {"resume": resume, "is_finishing": True}


def test_a_run_from_an_older_chosen_checkpoint_is_the_undisturbed_one(make_job, start, losses):
    training = {"epochs": 3, "keep_checkpoints": 3}
    straight = make_job("straight", training=training)
    loop, setup = start(straight)
    loop.run()

    first = make_job("first", training=training)
    interrupted, _ = start(first, stop_after=15)
    with pytest.raises(Stopped):
        interrupted.run()
    store = CheckpointStore(first.checkpoints_dir, keep_last=3)
    assert [manifest.step for manifest in store.manifests()] == [6, 12, 15]
    first.events_path.unlink()

    chosen = store.manifests()[0]
    second = make_job("first", training=training, order={"resume": chosen.name})
    resumed, resumed_work = start(second)
    assert resumed.step == 6
    assert [manifest.step for manifest in store.manifests()] == [6]
    resumed.run()
    later = {step: loss for step, loss in losses(straight).items() if step > 6}
    assert losses(second) == later
    assert resumed.history.series == loop.history.series
    assert resumed.best_metrics == loop.best_metrics
    assert same(weights(resumed_work), weights(setup))


def test_advancing_in_chunks_is_the_same_run(make_job, start, losses):
    whole, chunks = make_job("whole"), make_job("chunks")
    start(whole)[0].run()
    loop, _ = start(chunks)
    steps = []
    while loop.advance(5):
        steps.append(loop.step)
    assert steps == [5, 10]
    assert losses(chunks) == losses(whole)


def test_accumulated_micro_steps_are_one_batch(make_job, start, losses):
    # Without batch norm and dropout, which see micro steps.
    curves = []
    for accumulation in (1, 3):
        training = {"accumulation": accumulation}
        job_dir = make_job(f"a{accumulation}", model={"name": "amdnet"}, training=training)
        start(job_dir)[0].run()
        curves.append(losses(job_dir))
    assert curves[0] == pytest.approx(curves[1], rel=1e-4)


def test_a_run_whose_batches_take_most_of_its_time_is_called_loader_bound(make_job, start):
    loop, setup = start(make_job(training={"epochs": 6}))
    loop.run()
    assert setup.batches.pace.making_seconds > 0
    setup.batches.pace.making_seconds = loop._account.seconds
    (advice,) = loop.find_advice()
    assert advice.startswith("loader-bound: ")
    setup.batches.pace.waiting_seconds = loop._account.seconds
    assert loop.find_advice() == []


def test_steps_may_end_within_an_epoch_and_are_evaluated_there(make_job, start, events):
    job_dir = make_job(training={"epochs": None, "steps": 8})
    start(job_dir)[0].run()
    assert [e["data"]["step"] for e in events(job_dir, "checkpoint")] == [6, 8]
    progress = events(job_dir, "progress")[-1]["data"]
    assert (progress["step"], progress["steps"], progress["fraction"]) == (8, 8, 1.0)


def test_a_validation_pass_reports_progress_between_batches(make_job, start, events, monkeypatch):
    monkeypatch.setattr(image_classification.setup, "EVALUATION_BATCH", 2)
    said, steps = {}, []
    for name, progress_seconds in (("seldom", 1000.0), ("often", 0.0)):
        job_dir = make_job(name, training={"epochs": 1})
        start(job_dir, progress_seconds=progress_seconds)[0].run()
        kinds = [(e["kind"], e["data"].get("phase")) for e in events(job_dir)]
        begins = kinds.index(("phase", "evaluating"))
        ends = kinds.index(("phase", "training"), begins)
        said[name] = kinds[begins:ends].count(("progress", None))
        points = [e["data"]["points"] for e in events(job_dir, "metrics")]
        steps = [step for some in points for step, _ in some.get("memory_used_bytes", [])]
    # Six images, two at a time; each progress report does not add points again.
    assert said == {"seldom": 0, "often": 3}
    assert steps == [1, 2, 3, 4, 5, 6, 6, 6]


def test_bf16_trains_too(make_job, start, losses):
    job_dir = make_job(model={"name": "amdnet"}, training={"precision": "bf16", "epochs": 3})
    start(job_dir)[0].run()
    curve = losses(job_dir)
    assert curve[max(curve)] < curve[1]


def test_clipping_bounds_each_step(make_job, start):
    training = {"optimizer": {"name": "sgd", "lr": 1.0, "momentum": 0.0, "weight_decay": 0.0}}
    training |= {"clip_norm": 1e-3, "schedule": "constant"}
    loop, setup = start(make_job(training=training))
    before = [p.detach().clone() for p in setup.model.parameters()]
    loop.advance(1)
    moved = [new - old for old, new in zip(before, setup.model.parameters(), strict=True)]
    assert float(torch.cat([m.detach().flatten() for m in moved]).norm()) == pytest.approx(
        1e-3, rel=1e-2
    )


def test_the_moving_average_is_what_is_scored_and_kept_for_export(make_job, start):
    job_dir = make_job(training={"ema": 0.5})
    loop, setup = start(job_dir)
    loop.run()
    store = CheckpointStore(job_dir.checkpoints_dir)
    last = store.load(store.manifests()[-1].name)
    assert not same(last.weights, last.tensors_of("model"))
    setup.model.load_state_dict(last.weights)
    assert setup.evaluate(should_stop=lambda: False) == pytest.approx(last.manifest.metrics)


def test_training_ends_early_and_stays_ended_when_resumed(make_job, start, events):
    rule = {"metric": "val/accuracy", "patience": 1, "min_delta": 0.99}
    training = {"early_stopping": rule, "epochs": 9}
    job_dir = make_job(training=training)
    loop, setup = start(job_dir)
    loop.run()
    assert loop.is_done
    assert loop.step == 2 * setup.plan.steps_per_epoch
    (message,) = [
        e["data"]["text"] for e in events(job_dir, "message") if "early" in e["data"]["text"]
    ]
    assert "after epoch 2 of 9" in message

    newest = CheckpointStore(job_dir.checkpoints_dir).manifests()[-1]
    resumed, _ = start(make_job(training=training, order={"resume": newest.name}))
    resumed.run()
    assert resumed.step == loop.step


def test_early_stopping_reports_the_steps_that_were_done(make_job):
    rule = {"metric": "val/accuracy", "patience": 1, "min_delta": 0.99}
    job_dir = make_job(training={"early_stopping": rule, "epochs": 9})
    assert run_job(job_dir, StopSignal()) == 0
    trained = json.loads(job_dir.trained_path.read_text())
    assert trained["steps"] == 2 * trained["steps_per_epoch"]
    assert trained["planned_steps"] == 9 * trained["steps_per_epoch"]


@pytest.mark.parametrize("stop_after", [1, 6])
def test_a_resumed_run_in_fp16_is_the_uninterrupted_one(make_job, start, losses, stop_after):
    training = {"precision": "fp16"}
    straight = make_job("straight", training=training)
    loop, setup = start(straight)
    loop.run()
    assert loop.history.newest()["skipped_steps"] == 0

    first = make_job("first", training=training)
    interrupted, _ = start(first, stop_after=stop_after)
    with pytest.raises(Stopped):
        interrupted.run()
    newest = CheckpointStore(first.checkpoints_dir).manifests()[-1]
    assert newest.state["scaling"]["scaler"]["_growth_tracker"] == stop_after

    second = make_job("first", training=training, order={"resume": newest.name})
    resumed, resumed_work = start(second)
    resumed.run()
    assert losses(second) == losses(straight)
    assert same(weights(resumed_work), weights(setup))


def test_fp16_trains_as_well_as_fp32(make_job, start, losses):
    curves = []
    for precision in ("fp32", "fp16"):
        job_dir = make_job(precision, training={"precision": precision})
        start(job_dir)[0].run()
        curves.append(losses(job_dir))
    assert curves[0] != curves[1]
    assert curves[0] == pytest.approx(curves[1], rel=0.05)
