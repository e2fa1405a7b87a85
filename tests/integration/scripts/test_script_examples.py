"""The example scripts through the real queue, each cancelled on its way and retried.

test_scripts proves that a killed script continues, too. `make tensorflow` also runs the example
with TensorFlow, which is too large for every run.
"""

import os
import re
import shutil
from pathlib import Path

import pytest

from redkiln.client.bundle import open_bundle
from redkiln.status import JobStatus

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[3] / "examples" / "scripts"
LONGER = {
    "pytorch": "--steps=1500", "transformers": "--steps=150", "lora": "--steps=150",
    "lightning": "--epochs=15", "tensorflow": "--epochs=12",
}  # fmt: skip
SLOWLY = """
import os, runpy, sys, time
from pathlib import Path

import redkiln

log = redkiln.log

def log_slowly(*arguments, **fields):
    log(*arguments, **fields)
    if any(Path(os.environ["REDKILN_CHECKPOINTS"]).iterdir()):
        time.sleep(2)

if os.environ["REDKILN_RESUME"] == "0":
    redkiln.log = log_slowly
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs an example so that its first attempt is cancelled on its way, on any machine."""
LEAVES = {
    "pytorch": {"spirals.onnx", "samples.npz"},
    "transformers": {"model/model.safetensors", "model/tokenizer.json"},
    "lightning": {"sine.pt"},
    "lora": {"adapter/adapter_model.safetensors", "merged/model.safetensors"},
    "tensorflow": {"digits.onnx", "samples.npz"},
}
COMPARED = {"pytorch": "spirals.onnx", "tensorflow": "digits.onnx"}
INSTALLED_BY_THE_JOB = {"tensorflow"}
"""Examples whose requirements no environment of the tests has."""


def test_every_example_is_run():
    assert set(LEAVES) == {path.name for path in EXAMPLES.iterdir() if path.is_dir()}


def mark_large(name):
    """The example, skipped if its packages are too large for every run."""
    is_asked = "REDKILN_TEST_TENSORFLOW" in os.environ or name not in INSTALLED_BY_THE_JOB
    skip = pytest.mark.skipif(not is_asked, reason="installs 1.5 GB; run `make tensorflow`")
    return pytest.param(name, marks=skip)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [mark_large(name) for name in LEAVES])
def test_a_cancelled_example_resumes_on_retry_and_publishes_its_files(scripts, name, tmp_path):
    folder = shutil.copytree(EXAMPLES / name, tmp_path / name)
    (folder / "slowly.py").write_text(SLOWLY)
    sha256 = scripts.client.push_bundle(open_bundle(folder).package)
    script = {"command": ["python", "slowly.py", "train.py", LONGER[name]], "bundle": sha256}
    if name in INSTALLED_BY_THE_JOB:
        script["requirements"] = (folder / "requirements.txt").read_text().splitlines()
    job_id = scripts.client.submit({"task": "script", "script": script}).id
    scripts.wait_for(lambda: scripts.committed_steps(job_id) or ended(scripts, job_id), seconds=600)
    assert not ended(scripts, job_id), scripts.log(job_id)
    scripts.client.cancel(job_id)
    job = scripts.wait_for_end(job_id, seconds=30)
    assert job.status is JobStatus.CANCELLED
    assert job.progress.fraction < 1.0

    scripts.client.retry(job_id)
    job = scripts.wait_for_success(job_id, seconds=200)
    assert [attempt.resumed_from_step is None for attempt in job.attempts] == [True, False]
    resumed = re.search(r"resumes after step (\d+)", scripts.log(job_id))
    assert resumed, scripts.log(job_id)
    assert int(resumed[1]) > 0
    assert job.progress.fraction == 1.0
    assert scripts.client.metrics(job_id)
    left = {item.name: item.verified for item in scripts.client.artifacts(job_id)}
    assert set(left) >= LEAVES[name]
    if name in COMPARED:
        assert left[COMPARED[name]] is True


def ended(site, job_id):
    return site.client.job(job_id).is_terminal
