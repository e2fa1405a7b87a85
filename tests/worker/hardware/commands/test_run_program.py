"""`python -m worker.hardware run` on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
HIDDEN = {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"}


def run(tmp_path, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "worker.hardware", "run", "--cache-dir", str(tmp_path), *arguments],
        cwd=ROOT,
        env={**os.environ, **HIDDEN},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import os, sys\nprint(sys.argv[1:], os.environ['TRITON_CACHE_DIR'])\nsys.exit(7)\n"
    )
    return path


def test_the_program_runs_with_its_arguments_its_status_and_the_variables(tmp_path, script):
    done = run(tmp_path, "--", sys.executable, str(script), "--epochs", "3", "--", "x")
    assert done.returncode == 7
    assert done.stdout.startswith(f"['--epochs', '3', '--', 'x'] {tmp_path}/cpu/")
    assert "kernel_caches  applied" in done.stderr
    assert "no GPU" in done.stderr


def test_a_dry_run_only_prints_the_decisions(tmp_path, script):
    done = run(tmp_path, "--dry-run", "--json", "--", sys.executable, str(script))
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert told["problem"] == ""
    assert [patch["name"] for patch in told["patches"]] == ["kernel_caches", "others"]


def test_without_a_program_there_is_a_usage_error(tmp_path):
    done = run(tmp_path)
    assert done.returncode == 2
    assert "after --" in done.stderr


def test_a_missing_program_is_reported(tmp_path):
    done = run(tmp_path, "--", "/no/such/program")
    assert done.returncode == 127
    assert "/no/such/program cannot be run" in done.stderr
