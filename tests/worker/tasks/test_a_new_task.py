"""A new task is one spec file and one task folder: `example_task/` is added to a copy of the tree.

The copy consists of links to the files of the real tree, none of which is changed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worker.job_dirs import write_job
from worker.jobdir import EXIT_DONE, LocalDataset

ROOT = Path(__file__).parents[3]
EXAMPLE = Path(__file__).parent / "example_task"


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The packages of the real tree with the files of the example task next to theirs."""
    tree = tmp_path_factory.mktemp("tree")
    for package in ("redkiln", "service", "worker"):
        # Compiled files too, because compiling half of the tree takes seconds.
        for path in filter(Path.is_file, (ROOT / package).rglob("*")):
            link(tree / path.relative_to(ROOT), path)
    for path in list_files(EXAMPLE):
        link(tree / path.relative_to(EXAMPLE), path)  # fails if the real tree has this file
    return tree


def list_files(folder):
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]


def link(path, target):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def run_python(tree, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, cwd=tree, env=environment, check=False, timeout=240, capture_output=True, text=True
    )


def test_the_example_is_one_spec_file_and_one_task_folder():
    files = {str(path.relative_to(EXAMPLE)) for path in list_files(EXAMPLE)}
    assert files == {"redkiln/tasks/line_fit.py", "worker/tasks/line_fit/__init__.py"}


@pytest.mark.integration
def test_a_new_task_is_trained_exported_and_verified(tree, tmp_path):
    job_dir = write_job(
        tmp_path / "job",
        {
            "task": "line-fit",
            "dataset": "points",
            "training": {"epochs": 20, "optimizer": {"name": "adamw", "lr": 0.1}},
        },
        dataset=LocalDataset(name="points", kind="builtin", fingerprint="f" * 64),
        cache_dir=str(tmp_path / "cache"),
    )
    done = run_python(tree, "-c", TRAIN_AND_EXPORT, job_dir.root)
    assert done.returncode == EXIT_DONE, done.stderr + job_dir.events_path.read_text()
    outputs = {output.name: output for output in job_dir.load_outputs()}
    assert outputs["model.onnx"].verified
    assert (job_dir.out_dir / "model.onnx").stat().st_size > 0
    result = json.loads(job_dir.events_path.read_text().splitlines()[-1])["data"]
    assert result["metrics"]["test/rmse"] < 0.2  # the noise has a standard deviation of 0.1


# One process for both, which imports torch once.
TRAIN_AND_EXPORT = """
import sys
from pathlib import Path
from worker.jobdir import JobDir
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job
job_dir = JobDir(Path(sys.argv[1]))
sys.exit(run_job(job_dir, StopSignal()) or export_job(job_dir))
"""
SUBMIT = """
import sys
from pathlib import Path
from fastapi.testclient import TestClient
from service.app import create_app
from service.settings import Settings
app = create_app(Settings(state_dir=Path(sys.argv[1]), min_free_bytes=0))
with TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 1)) as client:
    spec = {"task": "line-fit", "dataset": "builtin:digits"}
    print(client.post("/v1/jobs", params={"dry_run": True}, json=spec).text)
    print(client.post("/v1/jobs", json=spec).text)
    print(client.get("/v1/tasks/line-fit/schema").text)
"""


def test_the_service_accepts_a_job_of_a_new_task(tree, tmp_path):
    done = run_python(tree, "-c", SUBMIT, tmp_path / "state")
    assert done.returncode == 0, done.stderr
    checked, job, schema = (
        json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")
    )
    assert checked["spec"]["model"] == {"name": "line"}
    assert (job["task"], job["status"]) == ("line-fit", "queued")
    assert schema["properties"]["task"]["default"] == "line-fit"
