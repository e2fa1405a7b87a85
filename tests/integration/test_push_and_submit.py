"""What a user does first: push data with the Python client and submit a job at once."""

import secrets

import pytest

from redkiln.events import EventKind

pytestmark = pytest.mark.integration
ROWS = [f"{i % 7},{['Oslo', 'Rome', 'Kyiv'][i % 3]},{['no', 'yes'][i % 2]}" for i in range(90)]


@pytest.fixture
def passengers(tmp_path):
    """A table whose name and content the service has not seen, in a second try of a test too."""
    number = secrets.randbelow(10**9)
    path = tmp_path / f"passengers-{number}.csv"
    path.write_text("\n".join(["age,town,survived", *ROWS, f"{number},Rome,yes"]))
    return path


def test_a_job_that_is_submitted_right_after_a_push_trains_on_those_data(site, passengers):
    pushed = site.client.push_dataset(passengers, target="survived")
    assert pushed.status == "validating"
    queued = site.client.submit({"dataset": passengers.stem, "training": {"epochs": 2}})
    job = site.wait_for_success(queued.id)
    assert job.task == "tabular-classification"
    assert job.dataset_id == pushed.id
    assert job.spec["training"]["epochs"] == 2
    (resolved,) = site.events(job.id, EventKind.RESOLVED)
    assert resolved.data["spec"]["task"] == "tabular-classification"
    assert job.result.metrics
    assert job.result.verdict == "verified"
    assert {file.name for file in job.result.files} == site.artifact_names(job.id)
    assert job.result.running_seconds > 0


def test_a_spec_that_does_not_fit_the_pushed_data_fails_with_its_pointer(site, passengers):
    site.client.push_dataset(passengers, target="survived")
    queued = site.client.submit({"dataset": passengers.stem, "model": "resnet18"})
    job = site.wait_for_end(queued.id)
    assert (job.status, job.reason.code) == ("failed", "bad_input")
    assert job.reason.message.startswith("/model/name: ")
