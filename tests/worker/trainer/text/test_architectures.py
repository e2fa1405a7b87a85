"""Whole jobs on architectures that require special texts."""

import pytest

from tests.worker.trainer.text.conftest import topic_splits
from worker.jobdir import EXIT_DONE
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job

pytestmark = pytest.mark.usefixtures("rehearsed")

OPTIONS = {"dim": 16, "layers": 1, "heads": 2, "vocabulary_size": 300}


@pytest.fixture
def run_through(make_text_job, events, text_table):
    """Runs a job to its trained checkpoint."""

    def run(name):
        # A text that contains the end token still has only one end.
        splits = {
            split: [
                (f"{text} [SEP] {text}" if place % 3 else text, label)
                for place, (text, label) in enumerate(rows)
            ]
            for split, rows in topic_splits().items()
        }
        job_dir = make_text_job(
            dataset=text_table(splits=splits),
            model={"name": name, "options": OPTIONS},
            training={"epochs": 1, "batch_size": 8},
        )
        assert run_job(job_dir, StopSignal()) == EXIT_DONE, events(job_dir, "failure")
        return job_dir

    return run


# Its export goes the way of t5's, so it is left out.
def test_bart_trains_on_texts_that_contain_its_end_token(run_through):
    run_through("bart")


@pytest.mark.parametrize("name", ["flaubert", "t5", "xlm"])
def test_a_job_on_an_architecture_learns_and_becomes_a_verified_model(name, run_through, events):
    job_dir = run_through(name)
    assert export_job(job_dir) == EXIT_DONE, events(job_dir, "failure")
    assert events(job_dir, "result")[-1]["data"]["verified"] is True


@pytest.mark.parametrize("name", ["bart", "t5"])
def test_a_batch_is_tried_on_texts_with_the_required_end_token(
    name, make_text_job, start, text_table
):
    # So many that a batch's size is measured.
    job_dir = make_text_job(
        dataset=text_table(splits=topic_splits(train=400)),
        model={"name": name, "options": OPTIONS},
        training={"epochs": 1, "batch_size": "auto"},
    )
    _, setup = start(job_dir)
    assert setup.spec.training.batch_size != "auto"
