"""Trainers and exports that a test starts itself: their job directories, and what they tell."""

import json
import sys

from tests.worker import job_dirs
from worker.jobdir import EXIT_DONE, EXIT_STOPPED, LocalDataset
from worker.process.lifetime import StopSignal

PATIENCE_SECONDS = 240
TRAINER = (sys.executable, "-m", "worker.trainer")
EXPORT = (sys.executable, "-m", "worker.export")
DIGITS = LocalDataset(name="digits", kind="builtin", fingerprint="digits")


def write_job(root, spec, *, dataset=DIGITS, **order):
    """A job directory on the digits or another data set, which reports progress often."""
    return job_dirs.write_job(root, spec, dataset=dataset, **{"progress_seconds": 0.05, **order})


class StopAt(StopSignal):
    """Asks to stop once a step was reported."""

    def __init__(self, job_dir, step):
        self._job_dir, self._step = job_dir, step
        super().__init__()

    @property
    def requested(self):
        return step_of(self._job_dir) >= self._step

    @requested.setter
    def requested(self, value):
        assert not value


def run_here(job_dir, *, stop_at=None):
    """Train in this process, which has imported torch already: a run to compare others with."""
    from worker.tasks.train import run_job  # imports torch, which `StopSignal` does not need

    stop = StopSignal() if stop_at is None else StopAt(job_dir, stop_at)
    wanted = EXIT_DONE if stop_at is None else EXIT_STOPPED
    assert run_job(job_dir, stop) == wanted, job_dir.events_path.read_text()[-2000:]


def export_here(job_dir):
    """Export in this process."""
    from worker.tasks.export import export_job  # imports torch

    assert export_job(job_dir) == EXIT_DONE, job_dir.events_path.read_text()[-2000:]


def events(job_dir, kind):
    """The data of the events of a kind that are written so far."""
    if not job_dir.events_path.exists():
        return []
    lines = job_dir.events_path.read_text().splitlines(keepends=True)
    found = [json.loads(line) for line in lines if line.endswith("\n")]
    return [event["data"] for event in found if event["kind"] == kind]


def losses(job_dir):
    """The training loss of every step."""
    points = {}
    for data in events(job_dir, "metrics"):
        points.update(dict(data["points"].get("train/loss", [])))
    return points


def step_of(job_dir):
    """The last step that was reported."""
    return max((data["step"] for data in events(job_dir, "progress")), default=0)
