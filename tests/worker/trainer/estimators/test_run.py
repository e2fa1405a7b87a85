import numpy as np
import pytest
import safetensors.torch
import torch

from tests.worker.late_stop import LateStop
from worker.checkpoints.checkpoint import CheckpointStore
from worker.jobdir import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED
from worker.process.lifetime import StopSignal
from worker.results.trained import Trained
from worker.tasks.export import export_job
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


def write_rare(write_table, num, num_rare):
    targets = np.zeros(num, np.int32)
    targets[:: num // num_rare][:num_rare] = 1
    size = np.arange(float(num)) % 13 + 5 * targets
    return write_table("rare.parquet", columns={"size": size}, targets=targets,
                       task=TASKS[0], num_test=40)  # fmt: skip


def train_trees(make_table_job, path, *, patience, task=TASKS[0]):
    """Run a job of at most 30 iterations; return its directory, and what it left."""
    job_dir = make_table_job(
        path=path, task=task, model="gradient-boosting", training={"early_stopping": patience}
    )
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    return job_dir, Trained.model_validate_json(job_dir.trained_path.read_bytes())


@pytest.mark.parametrize(
    ("num", "num_rare", "why"),
    [
        (400, 200, "36 validation rows are too few"),
        (440, 100, "40 validation rows are too few"),
        (2400, 100, "10 validation rows outside the largest class are too few"),
    ],
)
def test_folds_choose_the_iterations_if_chance_would_choose_them_on_validation(
    make_table_job, events, write_table, num, num_rare, why
):
    path = write_rare(write_table, num, num_rare)
    job_dir, trained = train_trees(make_table_job, path, patience=20)
    assert trained.counts["validation"] == 0
    assert trained.counts["train"] == num - 40
    assert trained.steps == trained.planned_steps <= 30
    texts = [event["data"]["text"] for event in events(job_dir, "message")]
    said = [text for text in texts if why in text]
    assert [text.startswith(f"The job trains {trained.steps} iterations") for text in said] == [
        True
    ]
    assert "cross-validation chose this number" in said[0]


@pytest.mark.parametrize(("num", "num_validation"), [(400, 0), (2400, 236)])
def test_folds_also_choose_the_iterations_of_values_with_few_validation_rows(
    make_table_job, events, write_table, num, num_validation
):
    size = np.arange(float(num)) % 13
    path = write_table("values.parquet", columns={"size": size}, targets=size**2,
                       task=TASKS[1], num_test=40)  # fmt: skip
    job_dir, trained = train_trees(make_table_job, path, patience=20, task=TASKS[1])
    assert trained.counts["validation"] == num_validation
    texts = [event["data"]["text"] for event in events(job_dir, "message")]
    said = [text for text in texts if "36 validation rows are too few" in text]
    assert len(said) == (num_validation == 0)
    assert all(text.startswith(f"The job trains {trained.steps} iterations") for text in said)
    assert export_job(job_dir) == EXIT_DONE


@pytest.mark.parametrize(("num", "num_rare", "patience"), [(400, 8, 30), (2400, 800, 20)])
def test_iterations_are_chosen_on_enough_rows_or_if_the_user_wants_it(
    make_table_job, write_table, num, num_rare, patience
):
    path = write_rare(write_table, num, num_rare)
    _, trained = train_trees(make_table_job, path, patience=patience)
    assert trained.planned_steps == 30
    assert trained.counts["validation"] == pytest.approx((num - 40) / 10, abs=2)


@pytest.mark.parametrize(("num_rare", "most_values"), [(1, 10**6), (8, 10**6), (80, 300)])
def test_a_large_table_or_a_very_rare_class_gets_the_usual_number_of_iterations(
    make_table_job, events, write_table, monkeypatch, num_rare, most_values
):
    monkeypatch.setattr("worker.tasks.tabular.boosting.setup.MOST_VALUES", most_values)
    path = write_rare(write_table, 400, num_rare)
    job_dir, trained = train_trees(make_table_job, path, patience=20)
    assert (trained.planned_steps, trained.counts["validation"]) == (100, 0)
    texts = [event["data"]["text"] for event in events(job_dir, "message")]
    assert any(
        "trains 100 iterations on all training rows; this is the usual number" in text
        for text in texts
    )
