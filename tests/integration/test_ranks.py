"""A job that several ranks train together: real processes, which exchange data with gloo."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from worker.jobdir import EXIT_DONE, JobDir, LocalDataset, Order

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 120
TOLERANCE = 2e-3
"""Of a loss near 1, after some hundred steps: sums of floats come in another order."""


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def make_job(tmp_path, cache_dir):
    """A job directory; amdnet has no batch norm, and no dropout."""

    def make(name, *, num_ranks=2, resume=None, model="amdnet", **training):
        order = Order(
            job_id="job_1",
            job_name=name,
            attempt_id="att_1",
            spec={
                "task": "image-classification",
                "dataset": "builtin:digits",
                "model": model,
                "training": {"batch_size": 64, "epochs": 3, "precision": "fp32", **training},
            },
            dataset=LocalDataset(name="digits", kind="builtin", fingerprint="digits"),
            device="cpu",
            threads=2,
            num_ranks=num_ranks,
            resume=resume,
            cache_dir=str(cache_dir),
            progress_seconds=0.05,
        )
        job_dir = JobDir(tmp_path / name)
        job_dir.root.mkdir(exist_ok=True)
        job_dir.order_path.write_text(order.model_dump_json())
        return job_dir

    return make


@pytest.fixture
def start():
    """Starts a trainer as the agent does, as the leader of a group; nothing outlives the test."""
    children = []

    def run(job_dir, *command):
        environment = {**os.environ, "REDKILN_PARENT_PID": str(os.getpid())}
        command = command or (sys.executable, "-m", "worker.trainer")
        with job_dir.log_path.open("ab") as log:
            child = subprocess.Popen(
                [*command, str(job_dir.root)],
                cwd=ROOT,
                env=environment,
                start_new_session=True,
                stdout=log,
                stderr=log,
            )
        children.append(child)
        return child

    yield run
    for child in children:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()


def events(job_dir, kind):
    if not job_dir.events_path.exists():
        return []
    lines = job_dir.events_path.read_text().splitlines(keepends=True)
    found = [json.loads(line) for line in lines if line.endswith("\n")]
    return [event["data"] for event in found if event["kind"] == kind]


def losses(job_dir):
    points = {}
    for data in events(job_dir, "metrics"):
        points.update(dict(data["points"].get("train/loss", [])))
    return points


def step_of(job_dir):
    return max((p["step"] for p in events(job_dir, "progress")), default=0)


def wait_until(condition, *, seconds=PATIENCE_SECONDS):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.005)
    return found


def run_to_end(child, job_dir):
    status = child.wait(timeout=PATIENCE_SECONDS)
    assert not members(child.pid), "a process was left"
    print(job_dir.log_path.read_text()[-3000:])  # noqa: T201  shown when a test fails
    return status


def members(group):
    """Living processes of a group."""
    found = []
    for process in psutil.process_iter():
        try:
            is_member = os.getpgid(process.pid) == group
            if is_member and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, ProcessLookupError):
            continue
    return found


def ranks_of(child):
    """The processes of the ranks, in their order; none before all are there."""
    found = {}
    for process in members(child.pid):
        try:
            environ = process.environ()
        except psutil.Error:
            continue
        if "RANK" in environ and process.ppid() == child.pid and process.pid != child.pid:
            found[int(environ["RANK"])] = process
    return [found[rank] for rank in sorted(found)] if len(found) == 2 else []


def assert_same_curve(one, other):
    assert one.keys() == other.keys()
    assert one
    for step, loss in one.items():
        assert other[step] == pytest.approx(loss, rel=TOLERANCE, abs=TOLERANCE), step


def test_two_ranks_make_the_curve_of_one_process(make_job, start):
    alone = make_job("alone", num_ranks=1)
    assert run_to_end(start(alone), alone) == EXIT_DONE
    both = make_job("both")
    assert run_to_end(start(both), both) == EXIT_DONE
    assert_same_curve(losses(alone), losses(both))
    one, other = (json.loads(job.trained_path.read_text()) for job in (alone, both))
    assert other["steps"] == one["steps"]
    assert other["metrics"]["val/accuracy"] == pytest.approx(
        one["metrics"]["val/accuracy"], abs=0.02
    )
