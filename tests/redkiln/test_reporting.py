import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

import redkiln
from redkiln import reporting


@pytest.fixture
def said(tmp_path, monkeypatch):
    path = tmp_path / "events.jsonl"
    monkeypatch.setenv("REDKILN_EVENTS", str(path))
    return lambda: [json.loads(line) for line in path.read_text().splitlines()]


def test_outside_a_job_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.delenv("REDKILN_EVENTS", raising=False)
    monkeypatch.chdir(tmp_path)
    redkiln.log(step=1, loss=0.5)
    assert not list(tmp_path.iterdir())
    assert not redkiln.is_resumed()


def test_each_call_writes_one_line_with_metrics_and_progress(said):
    redkiln.log(step=3, steps=10, loss=0.5)
    redkiln.log({"val/loss": 1}, epoch=1)
    assert said() == [
        {"step": 3, "steps": 10, "metrics": {"loss": 0.5}},
        {"epoch": 1, "metrics": {"val/loss": 1.0}},
    ]


def test_anything_that_converts_to_float_is_accepted(said):
    class Scalar:
        def __float__(self):
            return 2.5

    redkiln.log(loss=Scalar(), worst=math.inf)
    assert said() == [{"metrics": {"loss": 2.5, "worst": math.inf}}]


def test_a_value_that_is_not_a_number_raises_in_the_call(said):
    with pytest.raises((TypeError, ValueError)):
        redkiln.log(loss="low")


def test_only_the_first_of_several_processes_reports(said, monkeypatch):
    redkiln.log(loss=1)
    monkeypatch.setenv("RANK", "1")
    redkiln.log(loss=2)
    assert len(said()) == 1


def test_the_file_only_needs_the_standard_library():
    code = "import sys; sys.modules['pydantic'] = None; exec(open(sys.argv[1]).read()); log(a=1)"
    command = [sys.executable, "-I", "-S", "-c", code, str(Path(reporting.__file__))]
    subprocess.run(command, check=True)
