import numpy as np
import pytest
import safetensors.torch
import torch

from tests.worker.late_stop import LateStop
from worker.checkpoints.checkpoint import CheckpointStore
from worker.jobdir import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED
from worker.process.lifetime import StopSignal
from worker.results.trained import Trained
from worker.tasks.train import run_job

TASKS = ["tabular-classification", "tabular-regression"]


def trees_of(job_dir):
    last = CheckpointStore(job_dir.checkpoints_dir).manifests()[-1]
    return CheckpointStore(job_dir.checkpoints_dir).load(last.name).tensors_of("model")


def curves_of(events, job_dir):
    points = {}
    for event in events(job_dir, "metrics"):
        for name, some in event["data"]["points"].items():
            points.setdefault(name, []).extend(some)
    del points["samples_per_second"]
    return points


@pytest.mark.parametrize("task", TASKS)
def test_a_paused_job_ends_with_the_same_trees_and_curves(make_table_job, events, task):
    spec = {"task": task, "model": "gradient-boosting"}
    whole = make_table_job("whole", **spec)
    assert run_job(whole, StopSignal()) == EXIT_DONE
    part = make_table_job("part", **spec)
    assert run_job(part, LateStop(2)) == EXIT_STOPPED
    (paused,) = events(part, "checkpoint")
    assert paused["data"]["step"] < 30
    resumed = make_table_job("part", order={"resume": paused["data"]["file"]}, **spec)
    assert run_job(resumed, StopSignal()) == EXIT_DONE
    expected, found = trees_of(whole), trees_of(resumed)
    assert all(torch.equal(tensor, found[name]) for name, tensor in expected.items())
    assert curves_of(events, resumed) == curves_of(events, whole)
    trained = Trained.model_validate_json(resumed.trained_path.read_bytes())
    assert trained.steps == trained.planned_steps == 30
    assert trained.num_parameters > 30


def test_class_weights_change_the_trees(make_table_job):
    weighted = make_table_job(
        "weighted", model="gradient-boosting", training={"class_weights": {"yes": 5.0}}
    )
    plain = make_table_job("plain", model="gradient-boosting")
    values = []
    for job_dir in (weighted, plain):
        assert run_job(job_dir, StopSignal()) == EXIT_DONE
        values.append(trees_of(job_dir)["node_value"].tolist())
    assert values[0] != values[1]


def test_no_job_starts_from_trees(make_table_job, events, tmp_path):
    path = tmp_path / "trees.safetensors"
    metadata = {"task": TASKS[0], "model": '{"name": "gradient-boosting"}'}
    safetensors.torch.save_file({"x": torch.zeros(1)}, path, metadata=metadata)
    job_dir = make_table_job(
        model={"pretrained": "job:job_1", "options": {}}, order={"initial": str(path)}
    )
    assert run_job(job_dir, StopSignal()) == EXIT_FAILED
    message = events(job_dir, "failure")[-1]["data"]["message"]
    assert "job_1 trained gradient-boosting" in message


def write_rare(write_table, num_rare):
    targets = np.zeros(400, np.int32)
    targets[:: 400 // num_rare][:num_rare] = 1
    size = np.arange(400.0) % 13 + 5 * targets
    return write_table("rare.parquet", columns={"size": size}, targets=targets,
                       task=TASKS[0], num_test=40)  # fmt: skip


@pytest.mark.parametrize(
    ("num_rare", "patience", "steps"), [(8, 20, 100), (8, 30, 30), (160, 20, 30)]
)
def test_iterations_are_fixed_if_validation_has_few_rows_of_a_rare_class(
    make_table_job, events, write_table, num_rare, patience, steps
):
    job_dir = make_table_job(
        path=write_rare(write_table, num_rare),
        model="gradient-boosting",
        training={"early_stopping": patience},
    )
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    trained = Trained.model_validate_json(job_dir.trained_path.read_bytes())
    assert trained.planned_steps == steps
    is_fixed = steps == 100
    assert (trained.counts["validation"] == 0) == is_fixed
    codes = [event["data"]["code"] for event in events(job_dir, "warning")]
    assert ("few_validation_rows" in codes) == is_fixed
