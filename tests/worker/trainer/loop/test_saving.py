import json
from dataclasses import replace

import pytest
import torch

from worker.checkpoints.checkpoint import CheckpointStore
from worker.process.failed import TrainingFailed


def test_the_best_checkpoint_is_chosen_by_validation(make_job, start, events):
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
def test_the_best_and_the_requested_number_of_newest_checkpoints_are_kept(
    make_job, start, keep, steps
):
    job_dir = make_job(training={"epochs": 6, "keep_checkpoints": keep})
    loop, setup = start(job_dir)
    scores = iter(range(6, 0, -1))
    loop._setup = replace(
        setup, evaluate=lambda should_stop: {"val/accuracy": next(scores) / 10, "val/loss": 1.0}
    )
    loop.run()
    store = CheckpointStore(job_dir.checkpoints_dir)
    assert [manifest.step for manifest in store.manifests()] == steps
    assert store.find_best().step == 6


def test_if_the_best_checkpoint_is_gone_a_new_best_is_chosen(make_job, start, events):
    def run(loop, setup, scores):
        scores = iter(scores)
        loop._setup = replace(
            setup, evaluate=lambda should_stop: {"val/accuracy": next(scores), "val/loss": 1.0}
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


def test_without_validation_a_missing_best_checkpoint_gives_no_warning(make_job, start, events):
    training = {"epochs": 3, "validation_fraction": 0}
    job_dir = make_job(training=training)
    loop, setup = start(job_dir)
    loop.advance(setup.plan.steps_per_epoch + 2)
    loop._save(is_best=False, metrics={})
    (best,) = [m for m in CheckpointStore(job_dir.checkpoints_dir).manifests() if m.is_best]
    for path in job_dir.checkpoints_dir.glob(f"{best.name.removesuffix('.safetensors')}.*"):
        path.unlink()
    again = make_job(training=training, order={"resume": f"step-{loop.step:012d}.safetensors"})
    resumed, setup = start(again)
    assert resumed.step == loop.step
    resumed.run()
    assert events(again, "warning") == []
    assert CheckpointStore(again.checkpoints_dir).find_best().step == setup.plan.steps


def test_without_validation_the_last_epoch_is_the_best(make_job, start, events):
    job_dir = make_job(training={"validation_fraction": 0})
    start(job_dir)[0].run()
    assert CheckpointStore(job_dir.checkpoints_dir).find_best().step == 14
    assert "evaluating" not in [e["data"]["phase"] for e in events(job_dir, "phase")]


def test_checkpoints_are_also_written_by_time(make_job, start, events, monkeypatch):
    job_dir = make_job(training={"epochs": 1})
    loop, _ = start(job_dir)
    loop._saving.is_due_at = 0.0
    loop.run()
    assert [e["data"]["step"] for e in events(job_dir, "checkpoint")] == [1, 6]


def test_every_point_up_to_a_checkpoint_is_reported_before_it(make_job, start):
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


def test_weights_that_are_not_finite_are_never_checkpointed(make_job, start):
    job_dir = make_job()
    loop, setup = start(job_dir)
    loop.advance(1)
    with torch.no_grad():
        next(setup.model.parameters()).fill_(float("inf"))
    with pytest.raises(TrainingFailed, match="not finite"):
        loop._save(is_best=False, metrics={})
    assert CheckpointStore(job_dir.checkpoints_dir).manifests() == []


def test_a_broken_newest_checkpoint_loses_its_steps_and_gives_a_warning(make_job, start, events):
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
