"""`python -m worker.hardware run` on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from worker.hardware.__main__ import main
from worker.hardware.program import TorchFacts

ROOT = Path(__file__).parents[4]
HIDDEN = {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"}


@pytest.fixture
def run_here(tmp_path, monkeypatch):
    """Run the command in this process, which must not become the program."""
    facts = TorchFacts(version="2.13.0+cpu")
    monkeypatch.setattr("worker.hardware.commands.run.ask_torch", lambda *_, **__: facts)
    for name, value in HIDDEN.items():
        monkeypatch.setenv(name, value)
    return lambda *arguments: main(["run", "--cache-dir", str(tmp_path), *arguments])


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import os, sys\nprint(sys.argv[1:], os.environ['TRITON_CACHE_DIR'])\nsys.exit(7)\n"
    )
    return path


def test_the_program_runs_with_its_arguments_its_status_and_the_variables(tmp_path, script):
    own = [sys.executable, "-m", "worker.hardware", "run", "--cache-dir", str(tmp_path)]
    done = subprocess.run(
        [*own, "--", sys.executable, str(script), "--epochs", "3", "--", "x"],
        cwd=ROOT,
        env={**os.environ, **HIDDEN},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 7
    assert done.stdout.startswith(f"['--epochs', '3', '--', 'x'] {tmp_path}/cpu/")
    assert "kernel_caches  applied" in done.stderr
    assert "no GPU" in done.stderr


def test_a_dry_run_only_prints_the_decisions(run_here, script, capsys):
    assert run_here("--dry-run", "--json", "--", sys.executable, str(script)) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["problem"] == ""
    assert [patch["name"] for patch in told["patches"]] == ["kernel_caches", "others"]


def test_without_a_program_there_is_a_usage_error(run_here, capsys):
    assert run_here() == 2
    assert "after --" in capsys.readouterr().err


def test_a_missing_program_is_reported(run_here, capsys):
    assert run_here("--", "/no/such/program") == 127
    assert "/no/such/program cannot be run" in capsys.readouterr().err
