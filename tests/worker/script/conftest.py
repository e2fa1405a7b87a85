import json

import pytest

from redkiln.events import EventWriter
from tests.waiting import Clock
from worker.jobdir import JobDir
from worker.process.event_log import EventLog
from worker.script.heartbeat import Heartbeat
from worker.script.program.paths import ScriptPaths


@pytest.fixture
def job_dir(tmp_path):
    job_dir = JobDir(tmp_path / "job")
    job_dir.checkpoints_dir.mkdir(parents=True)
    job_dir.out_dir.mkdir()
    return job_dir


@pytest.fixture
def event_log(job_dir):
    with EventWriter(job_dir.events_path) as writer:
        yield EventLog(writer, progress_seconds=0.0)


@pytest.fixture
def events(job_dir, event_log):
    def events(kind=None):
        lines = [json.loads(line) for line in job_dir.events_path.read_text().splitlines()]
        return [line["data"] for line in lines if kind in (None, line["kind"])]

    return events


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def paths(job_dir):
    paths = ScriptPaths(job_dir.root / "script")
    paths.prepare()
    return paths


@pytest.fixture
def beat_at_once(monkeypatch):
    """Every sign of life is due."""
    defaults = {**Heartbeat.__init__.__kwdefaults__, "seconds": 0.0}
    monkeypatch.setattr(Heartbeat.__init__, "__kwdefaults__", defaults)
