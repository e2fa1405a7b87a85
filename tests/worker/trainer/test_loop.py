import json
from dataclasses import replace

import pytest
import torch

from redkiln.failure import FailureCode
from worker.jobdir import EXIT_FAILED
from worker.trainer.checkpoint import CheckpointStore
from worker.trainer.failed import TrainingFailed
from worker.trainer.lifetime import Stopped, StopSignal
from worker.trainer.run import run_job
from worker.trainer.tasks import image_classification


def weights(work):
    return {name: tensor.clone() for name, tensor in work.model.state_dict().items()}


def same(left, right):
    return all(torch.equal(left[name], right[name]) for name in left)


def test_the_same_seed_makes_the_same_run(make_job, start, losses):
    runs = []
    for name in ("one", "two"):
        job_dir = make_job(name)
        loop, work = start(job_dir)
        loop.run()
        runs.append((losses(job_dir), weights(work)))
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
    loop, work = start(straight)
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
    assert same(weights(resumed_work), weights(work))


def test_a_run_from_an_older_chosen_checkpoint_is_the_undisturbed_one(make_job, start, losses):
    training = {"epochs": 3, "keep_checkpoints": 3}
    straight = make_job("straight", training=training)
    loop, work = start(straight)
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
    assert same(weights(resumed_work), weights(work))


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
    loop, work = start(make_job(training={"epochs": 6}))
    loop.run()
    assert work.batches.pace.making_seconds > 0
    work.batches.pace.making_seconds = loop._account.seconds
    (advice,) = loop.find_advice()
    assert advice.startswith("loader-bound: ")
    work.batches.pace.waiting_seconds = loop._account.seconds
    assert loop.find_advice() == []


def test_the_best_checkpoint_is_by_validation(make_job, start, events):
    job_dir = make_job(training={"epochs": 6})
    loop, _ = start(job_dir)
    loop.run()
    scores = [
        (e["data"]["metrics"]["val/accuracy"], -e["data"]["metrics"]["val/loss"], e["data"]["step"])
        for e in events(job_dir, "checkpoint")
    ]
    assert len(scores) == 6
    best = max(scores)
    assert CheckpointStore(job_dir.checkpoints_dir).find_best().step == best[2]
    assert loop.best_metrics["val/accuracy"] == best[0]


@pytest.mark.parametrize(("keep", "steps"), [(1, [6, 36]), (4, [6, 18, 24, 30, 36])])
def test_the_best_checkpoint_and_as_many_of_the_last_as_asked_for_are_kept(
    make_job, start, keep, steps
):
    job_dir = make_job(training={"epochs": 6, "keep_checkpoints": keep})
    loop, work = start(job_dir)
    scores = iter(range(6, 0, -1))
    loop._work = replace(
        work, evaluate=lambda should_stop: {"val/accuracy": next(scores) / 10, "val/loss": 1.0}
    )
    loop.run()
    store = CheckpointStore(job_dir.checkpoints_dir)
    assert [manifest.step for manifest in store.manifests()] == steps
    assert store.find_best().step == 6


def test_where_the_best_is_gone_it_is_looked_for_from_there_on(make_job, start, events):
    def run(loop, work, scores):
        scores = iter(scores)
        loop._work = replace(
            work, evaluate=lambda should_stop: {"val/accuracy": next(scores), "val/loss": 1.0}
        )
        loop.run()

    training = {"epochs": 6, "keep_checkpoints": 4}
    job_dir = make_job(training=training)
    run(*start(job_dir), scores=[0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    for path in job_dir.checkpoints_dir.glob("step-000000000006.*"):
        path.unlink()
    again = make_job(training=training, order={"resume": "step-000000000024.safetensors"})
    run(*start(again), scores=[0.3, 0.2])
    assert CheckpointStore(again.checkpoints_dir).find_best().step == 30
    (warning,) = [event["data"] for event in events(again, "warning")]
    assert warning["code"] == "best_gone"
    assert "val/accuracy 0.9" in warning["message"]


def test_without_validation_the_last_epoch_is_the_best(make_job, start, events):
    job_dir = make_job(training={"validation_fraction": 0})
    start(job_dir)[0].run()
    assert CheckpointStore(job_dir.checkpoints_dir).find_best().step == 14
    assert "evaluating" not in [e["data"]["phase"] for e in events(job_dir, "phase")]


def test_steps_may_end_within_an_epoch_and_are_evaluated_there(make_job, start, events):
    job_dir = make_job(training={"epochs": None, "steps": 8})
    start(job_dir)[0].run()
    assert [e["data"]["step"] for e in events(job_dir, "checkpoint")] == [6, 8]
    progress = events(job_dir, "progress")[-1]["data"]
    assert (progress["step"], progress["steps"], progress["fraction"]) == (8, 8, 1.0)


def test_checkpoints_are_also_made_by_time(make_job, start, events, monkeypatch):
    job_dir = make_job(training={"epochs": 1})
    loop, _ = start(job_dir)
    loop._saving.is_due_at = 0.0
    loop.run()
    assert [e["data"]["step"] for e in events(job_dir, "checkpoint")] == [1, 6]


def test_a_validation_pass_says_between_its_batches_that_it_goes_on(
    make_job, start, events, monkeypatch
):
    monkeypatch.setattr(image_classification, "EVALUATION_BATCH", 2)
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
    # Six images, two at a time; what is read of the run is no point again with each of them.
    assert said == {"seldom": 0, "often": 3}
    assert steps == [1, 2, 3, 4, 5, 6, 6, 6]


def test_every_point_up_to_a_checkpoint_is_said_before_it(make_job, start):
    job_dir = make_job(training={"epochs": 3, "batch_size": 16})
    loop, _ = start(job_dir, progress_seconds=1000.0)
    loop.run()
    said, checkpoints = 0, []
    for line in job_dir.events_path.read_text().splitlines():
        event = json.loads(line)
        if event["kind"] == "metrics":
            steps = [step for step, _ in event["data"]["points"].get("train/loss", [])]
            said = max([said, *steps])
        if event["kind"] == "checkpoint":
            checkpoints.append((event["data"]["step"], said))
    assert len(checkpoints) == 3
    assert all(step == said for step, said in checkpoints)


def test_a_loss_that_is_no_number_ends_the_run_and_names_the_last_good_checkpoint(
    make_job, start, events
):
    job_dir = make_job()
    loop, work = start(job_dir)
    loop.advance(6)
    loop.advance(1)
    with torch.no_grad():
        next(work.model.parameters()).fill_(float("nan"))
    with pytest.raises(TrainingFailed, match="step-000000000006") as caught:
        loop.run()
    failure = caught.value.failure
    assert failure.code is FailureCode.DIVERGED
    assert failure.details["step"] == 8
    assert [e["data"]["step"] for e in events(job_dir, "checkpoint")] == [6]


def test_weights_that_are_no_numbers_are_never_checkpointed(make_job, start):
    job_dir = make_job()
    loop, work = start(job_dir)
    loop.advance(1)
    with torch.no_grad():
        next(work.model.parameters()).fill_(float("inf"))
    with pytest.raises(TrainingFailed, match="not finite"):
        loop._save(is_best=False, metrics={})
    assert CheckpointStore(job_dir.checkpoints_dir).manifests() == []


def test_a_rate_far_too_high_is_said_to_diverge(make_job, events):
    optimizer = {"name": "sgd", "lr": 100.0}
    job_dir = make_job(model={"name": "amdnet"}, training={"optimizer": optimizer, "epochs": 40})
    assert run_job(job_dir, StopSignal()) == EXIT_FAILED
    failure = events(job_dir)[-1]
    assert (failure["kind"], failure["data"]["code"]) == ("failure", "diverged")
    assert failure["data"]["retryable"] is False


def test_a_broken_newest_checkpoint_costs_its_steps_and_is_warned_of(make_job, start, events):
    first = make_job("job")
    start(first)[0].run()
    newest = CheckpointStore(first.checkpoints_dir).manifests()[-1]
    path = first.checkpoints_dir / newest.name
    path.write_bytes(path.read_bytes()[:-1])
    second = make_job("job", order={"resume": newest.name})
    loop, _ = start(second)
    assert loop.step == 6
    warning = events(second, "warning")[-1]["data"]
    assert warning["code"] == "checkpoint_broken"
    assert newest.name.removesuffix(".safetensors") in warning["message"]
    # The service had offered a later one.
    assert 6 in [event["data"].get("undone_after") for event in events(second, "metrics")]


def test_bf16_trains_too(make_job, start, losses):
    job_dir = make_job(model={"name": "amdnet"}, training={"precision": "bf16", "epochs": 3})
    start(job_dir)[0].run()
    curve = losses(job_dir)
    assert curve[max(curve)] < curve[1]


def test_clipping_bounds_each_step(make_job, start):
    training = {"optimizer": {"name": "sgd", "lr": 1.0, "momentum": 0.0, "weight_decay": 0.0}}
    training |= {"clip_norm": 1e-3, "schedule": "constant"}
    loop, work = start(make_job(training=training))
    before = [p.detach().clone() for p in work.model.parameters()]
    loop.advance(1)
    moved = [new - old for old, new in zip(before, work.model.parameters(), strict=True)]
    assert float(torch.cat([m.detach().flatten() for m in moved]).norm()) == pytest.approx(
        1e-3, rel=1e-2
    )


def test_the_moving_average_is_what_is_scored_and_kept_for_export(make_job, start):
    job_dir = make_job(training={"ema": 0.5})
    loop, work = start(job_dir)
    loop.run()
    store = CheckpointStore(job_dir.checkpoints_dir)
    last = store.load(store.manifests()[-1].name)
    assert not same(last.weights, last.tensors_of("model"))
    work.model.load_state_dict(last.weights)
    assert work.evaluate(should_stop=lambda: False) == pytest.approx(last.manifest.metrics)


def test_training_ends_early_and_stays_ended_when_resumed(make_job, start, events):
    rule = {"metric": "val/accuracy", "patience": 1, "min_delta": 0.99}
    training = {"early_stopping": rule, "epochs": 9}
    job_dir = make_job(training=training)
    loop, work = start(job_dir)
    loop.run()
    assert loop.is_done
    assert loop.step == 2 * work.plan.steps_per_epoch
    (message,) = [
        e["data"]["text"] for e in events(job_dir, "message") if "early" in e["data"]["text"]
    ]
    assert "after epoch 2 of 9" in message

    newest = CheckpointStore(job_dir.checkpoints_dir).manifests()[-1]
    resumed, _ = start(make_job(training=training, order={"resume": newest.name}))
    resumed.run()
    assert resumed.step == loop.step


def test_an_early_end_leaves_the_steps_that_were_made(make_job):
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
    loop, work = start(straight)
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
    assert same(weights(resumed_work), weights(work))


def test_fp16_trains_as_well_as_fp32(make_job, start, losses):
    curves = []
    for precision in ("fp32", "fp16"):
        job_dir = make_job(precision, training={"precision": precision})
        start(job_dir)[0].run()
        curves.append(losses(job_dir))
    assert curves[0] != curves[1]
    assert curves[0] == pytest.approx(curves[1], rel=0.05)


def spoil(work, *, steps):
    """The loss overflows at these steps, counted from 0."""
    made = []

    def loss(outputs, targets, *, own=work.loss):
        made.append(1)
        return own(outputs, targets) * (float("inf") if len(made) - 1 in steps else 1.0)

    return replace(work, loss=loss)


def test_a_step_that_overflows_in_fp16_is_left_out_and_counted(make_job, start, losses):
    job_dir = make_job(training={"precision": "fp16"})
    loop, work = start(job_dir)
    loop._gradients._work = spoil(work, steps={2, 5})
    loop.run()
    assert set(losses(job_dir)) == set(range(1, 13)) - {3, 6}
    assert loop.history.series["skipped_steps"] == [(6, 2), (12, 2)]


def test_many_overflows_in_a_row_are_a_divergence_with_the_step(make_job, start):
    job_dir = make_job(training={"precision": "fp16", "epochs": 5})
    loop, work = start(job_dir)
    loop._gradients._work = spoil(work, steps=set(range(4, 40)))
    with pytest.raises(TrainingFailed, match="20 steps in a row") as caught:
        loop.run()
    assert caught.value.failure.code is FailureCode.DIVERGED
    assert caught.value.failure.details["step"] == 24
