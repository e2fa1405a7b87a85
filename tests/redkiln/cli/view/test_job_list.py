import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from redkiln.cli.view.job_list import order_of, print_jobs, refuse_metric
from redkiln.views.job import JobSummary

AT = datetime(2026, 11, 21, tzinfo=UTC)


def job(
    name, *, metrics=None, status="succeeded", number=0, task="image-classification", verdict=None,
    **facts,
):  # fmt: skip
    result = {"metrics": metrics, "verdict": verdict} if metrics else None
    return JobSummary(
        id=f"job_0123456789abcdefghij{number:02}",
        name=name,
        task=task,
        status=status,
        is_terminal=status == "succeeded",
        result=result,
        created_at=AT.replace(hour=number),
        **facts,
    )


def shown(jobs, *, width=80, **options):
    console = Console(file=io.StringIO(), width=width)
    print_jobs(console, jobs, **options)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize(
    ("key", "order"),
    [("test/accuracy", "-test/accuracy"), ("test/loss", "test/loss"), ("val/rmse", "val/rmse"),
     ("name", "name"), ("queue", "queue"), ("priority", "-priority"), ("created", "-created"),
     ("-name", "-name"), ("-test/loss", "-test/loss")],
)  # fmt: skip
def test_the_best_job_comes_first(key, order):
    assert order_of(key) == order


def test_an_unknown_metric_lists_those_that_jobs_have():
    refused = refuse_metric("accuracy", [job("a", metrics={"test/loss": 0.1})])
    assert "Choose one of: test/loss, created" in str(refused)


def test_a_waiting_job_shows_its_position_and_priority():
    lines = shown([job("wine", status="queued", queue_position=3, priority=7)])
    assert "prio" in lines[0]
    assert "queued #3" in lines[2]
    assert " 7 " in lines[2]


def test_columns_stay_apart_in_a_narrow_terminal():
    long = job("a-very-long-name-of-a-job" * 3, metrics={"test/accuracy": 0.9834}, priority=-100)
    waiting = job("b" * 90, status="queued", queue_position=1000)
    lines = shown([long, waiting], width=80)
    assert max(map(len, lines)) <= 80
    assert "…  " in lines[2]


def test_a_metric_replaces_the_headline():
    lines = shown([job("a", metrics={"test/f1": 0.5, "test/accuracy": 0.9})], metric="test/f1")
    assert ("test/f1" in lines[0], "0.5" in lines[2]) == (True, True)


@pytest.mark.parametrize(
    ("metrics", "verdict", "words"),
    [
        ({"train/loss": 0.1, "val MAE": 3.197}, "not_checked", "val MAE 3.197"),
        ({"loss": 0.25, "steps": 9}, None, "loss 0.25"),
        ({"loss": 0.25}, "unverified", "loss 0.25, UNVERIFIED"),
    ],
)
def test_a_script_shows_a_metric_and_whether_its_model_failed_its_check(metrics, verdict, words):
    lines = shown([job("a", task="script", metrics=metrics, verdict=verdict)])
    assert f"  {words}  " in lines[2]


def test_a_failed_script_shows_its_last_metric():
    progress = {"metrics": {"val_mae": 3.2}}
    lines = shown([job("a", task="script", metrics={}, progress=progress)])
    assert "val mae 3.2" in lines[2]


def test_an_unverified_model_of_a_built_in_task_is_marked_too():
    lines = shown([job("a", metrics={"val/rmse": 0.5}, verdict="unverified")])
    assert "0.5, UNVERIFIED" in lines[2]
