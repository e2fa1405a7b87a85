"""What the first lines of the report say, from a trained table to its files."""

import re

import pytest

from tests.worker.late_stop import LateStop
from worker.jobdir import EXIT_DONE, EXIT_STOPPED
from worker.process.lifetime import StopSignal
from worker.results.trained import Trained
from worker.tasks.export import export_job
from worker.tasks.train import run_job

LEAK = "column x predicts the target almost without mistakes"
TREES = {"model": "gradient-boosting", "training": {"steps": 5}}


def train(job_dir):
    assert run_job(job_dir, StopSignal()) == EXIT_DONE


def export_headline(job_dir):
    """Export, and return the report's lines above its results."""
    assert export_job(job_dir) == EXIT_DONE
    return (job_dir.out_dir / "report.md").read_text().partition("## Results")[0]


def test_a_leaking_column_is_in_the_headline_and_a_warning_of_the_job(make_table_job, events):
    job_dir = make_table_job(**TREES)
    train(job_dir)
    order = job_dir.load_order()
    dataset = order.required_dataset.model_copy(update={"warnings": [LEAK], "leaks": [LEAK]})
    job_dir.order_path.write_text(order.model_copy(update={"dataset": dataset}).model_dump_json())
    assert f"**New data may score far worse**: {LEAK}." in export_headline(job_dir)
    warned = [event["data"] for event in events(job_dir, "warning")]
    assert {"code": "leaking_columns", "message": LEAK} in warned


def test_copies_in_the_test_split_are_in_the_headline_and_the_result(make_table_job, events):
    job_dir = make_table_job(**TREES)
    train(job_dir)
    order = job_dir.load_order()
    dataset = order.required_dataset.model_copy(update={"num_copies": 2, "num_repeated": 3})
    job_dir.order_path.write_text(order.model_copy(update={"dataset": dataset}).model_dump_json())
    headline = export_headline(job_dir)
    assert "of which at least 2 are copies or near copies of training rows." in headline
    assert "3 of the test rows are copies or near copies of other test rows" in headline
    copies = events(job_dir, "result")[-1]["data"]["copies"]
    assert (copies["noun"], copies["num_copies"], copies["num_repeated"]) == ("rows", 2, 3)


@pytest.mark.parametrize(
    ("spec", "looks", "told"),
    [
        ({"training": {"epochs": 8}}, 8, r"after (\S+) of 8 epochs"),
        ({**TREES, "training": {"steps": 60}}, 2, r"after (\S+) of 60 iterations"),
    ],
)
def test_a_job_that_was_finished_early_says_how_much_it_trained(
    make_table_job, events, spec, looks, told
):
    stopped = make_table_job(**spec)
    assert run_job(stopped, LateStop(looks)) == EXIT_STOPPED
    checkpoint = events(stopped, "checkpoint")[-1]["data"]
    finishing = make_table_job(order={"resume": checkpoint["file"], "is_finishing": True}, **spec)
    train(finishing)
    headline = export_headline(finishing)
    (done,) = re.findall(rf"\*\*Finished early\*\* with `redkiln finish`, {told}\.", headline)
    trained = Trained.model_validate_json(finishing.trained_path.read_bytes())
    assert float(done) == pytest.approx(checkpoint["step"] / trained.steps_per_epoch, rel=1e-3)


def test_a_job_that_trained_to_its_end_was_not_finished_early(make_table_job, events):
    train(make_table_job(**TREES))
    newest = events(make_table_job(**TREES), "checkpoint")[-1]["data"]["file"]
    finishing = make_table_job(order={"resume": newest, "is_finishing": True}, **TREES)
    train(finishing)
    assert "Finished early" not in export_headline(finishing)
