"""Tabular jobs with two ranks, compared with the same jobs in one process."""

import pytest

from worker.checkpoints.checkpoint import CheckpointStore
from worker.jobdir import EXIT_DONE, EXIT_STOPPED

TASKS = ["tabular-classification", "tabular-regression"]
# What is drawn differs from rank to rank.
MODEL = {"options": {"hidden": [16], "dropout": 0.0}}
# Shares of 7 and 8 rows, in micro steps of 3 to 4.
TRAINING = {"epochs": 3, "batch_size": 15, "accumulation": 2, "clip_norm": 1.0, "ema": 0.9}


def assert_same_curve(found, wanted):
    assert wanted
    assert found == pytest.approx(wanted, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("task", TASKS)
def test_two_ranks_have_the_same_curve_as_one_process(
    make_table_job, start, losses, rank_pair, task
):
    alone = make_table_job("alone", task=task, model=MODEL, training=TRAINING)
    loop, _ = start(alone)
    loop.run()
    both = make_table_job("both", task=task, model=MODEL, training=TRAINING)
    first, second = rank_pair.make(both)
    assert first == second
    assert (first["status"], first["step"]) == (EXIT_DONE, loop.step)
    assert_same_curve(losses(both), losses(alone))


@pytest.mark.parametrize("task", TASKS)
def test_two_ranks_resume_from_one_process_and_the_reverse(
    make_table_job, start, losses, rank_pair, task
):
    settings = {"task": task, "model": MODEL, "training": TRAINING}
    straight = make_table_job("straight", **settings)
    start(straight)[0].run()
    job_dir = make_table_job("moved", **settings)
    answers = rank_pair.make(job_dir, stop_after=7)
    assert [answer["status"] for answer in answers] == [EXIT_STOPPED, EXIT_STOPPED]
    # Two ranks, then one process, then two ranks again.
    moved = make_table_job("moved", **settings, order={"resume": newest(job_dir)})
    loop, _ = start(moved)
    loop.advance(10)
    loop._save(is_best=False, metrics={})
    moved = make_table_job("moved", **settings, order={"resume": newest(job_dir)})
    first, second = rank_pair.make(moved)
    assert first == second
    assert first["status"] == EXIT_DONE
    assert_same_curve(losses(moved), losses(straight))


def newest(job_dir):
    return CheckpointStore(job_dir.checkpoints_dir).manifests()[-1].name
