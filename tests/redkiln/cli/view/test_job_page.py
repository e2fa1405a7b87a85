"""What `redkiln job` says about a job's attempts."""

import io
from datetime import UTC, datetime

from rich.console import Console

from redkiln.cli.view.job_page import print_job
from redkiln.cli.view.result import Result
from redkiln.views.job import AttemptView, JobView, Progress

AT = datetime(2026, 11, 21, tzinfo=UTC)


def attempt(number, **fields):
    return AttemptView(
        id=f"att_{number}",
        number=number,
        status="succeeded",
        worker_id="wrk_1",
        started_at=AT,
        finished_at=AT,
        **fields,
    )


def shown(*attempts, **progress):
    job = JobView(
        id="job_0123456789abcdefghijkl",
        name="rides",
        task="script",
        status="succeeded",
        is_terminal=True,
        created_at=AT,
        progress=Progress(**progress),
        attempts=attempts,
        spec={},
    )
    console = Console(file=io.StringIO(), width=120)
    print_job(console, Result(job), dataset_name="")
    return [line.split() for line in console.file.getvalue().splitlines()]


def test_the_last_attempt_of_a_script_that_reports_epochs_alone_shows_its_epoch():
    lines = shown(attempt(1), attempt(2), epoch=14, epochs=20)
    assert ["1", "succeeded", "wrk_1", "0.0", "s"] in lines
    assert ["2", "succeeded", "wrk_1", "epoch", "14", "0.0", "s"] in lines


def test_an_attempt_with_steps_shows_these():
    lines = shown(attempt(1, last_step=90), epoch=3, step=90)
    assert ["1", "succeeded", "wrk_1", "to", "90", "0.0", "s"] in lines
