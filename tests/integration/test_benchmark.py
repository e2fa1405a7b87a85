"""A job that trains nothing goes the same way: queued, claimed, measured, published."""

import json

import pytest
from typer.testing import CliRunner

from redkiln.cli.app import build_app
from redkiln.views.benchmark import load_result

pytestmark = pytest.mark.integration

TINY = (
    "measure.sizes=[64]",
    "measure.precisions=[fp32]",
    "measure.batch_size=1",
    "measure.seconds=120",
    "measure.samples=3",
)


@pytest.fixture
def site(real_site):
    return real_site


def run(site, *arguments):
    stack = site.stack
    where = ("--url", stack.url, "--key", stack.admin_key)
    return CliRunner().invoke(build_app(), [str(item) for item in (*arguments, *where)])


def test_one_command_measures_through_the_queue(site, tmp_path):
    options = [word for setting in TINY for word in ("--set", setting)]
    done = run(site, "bench", "--quick", *options, "--out", tmp_path / "numbers")
    assert done.exit_code == 0, done.output
    assert "matrix product 64, fp32" in done.stdout
    assert "There is no GPU" in done.stdout
    names = {path.name for path in (tmp_path / "numbers").iterdir()}
    assert {"benchmark.json", "benchmark.png", "report.md", "trainer.log", "job.json"} <= names
    result = load_result(tmp_path / "numbers" / "benchmark.json")
    assert result.find("training/resnet18/fp32/contiguous")
    job = site.client.job(json.loads((tmp_path / "numbers" / "job.json").read_text())["id"])
    assert (job.status, job.dataset_id, len(job.attempts)) == ("succeeded", None, 1)
    phases = [event.data["phase"] for event in site.events(job.id, "phase")]
    assert phases == ["preparing", "measuring", "uploading"]
    compared = run(site, "bench", "--compare", *[tmp_path / "numbers" / "benchmark.json"] * 2)
    assert "1.00x" in compared.stdout


def test_a_cancel_stops_the_measuring(site):
    measure = {"tests": ["matmul"], "sizes": [512], "seconds": 3600, "samples": 1000}
    job_id = site.client.submit({"task": "benchmark", "measure": measure}).id
    site.wait_for(lambda: site.client.job(job_id).phase == "measuring")
    site.client.cancel(job_id)
    assert site.wait_for_end(job_id).status == "cancelled"
    site.wait_for(lambda: site.trainer_of() is None)
