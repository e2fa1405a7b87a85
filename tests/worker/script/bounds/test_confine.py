import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from redkiln.tasks.script import Limits
from worker.script.bounds import confine
from worker.script.bounds.bounds import SYSTEM_DIRS, Bounds, has_landlock
from worker.script.bounds.confine import EXIT_NOT_FOUND, Confinement

needs_landlock = pytest.mark.skipif(not has_landlock(), reason="this kernel has no Landlock")


def run(*program, **bounds):
    order = Confinement(parent=os.getpid(), **bounds)
    own = [sys.executable, "-I", "-S", confine.__file__]
    return subprocess.run(
        [*own, json.dumps(asdict(order)), *program], capture_output=True, text=True, check=False
    )


@pytest.fixture
def open_dirs():
    return {"readable": [*SYSTEM_DIRS], "writable": ["/dev"]}


def test_it_becomes_the_program_and_exits_with_its_status(open_dirs):
    done = run("sh", "-c", "echo hello; exit 7", **open_dirs)
    assert (done.stdout, done.returncode) == ("hello\n", 7)


def test_a_missing_program_gives_the_status_that_shells_use(open_dirs):
    done = run("no-such-program", **open_dirs)
    assert done.returncode == EXIT_NOT_FOUND
    assert "no-such-program cannot be run" in done.stderr


def test_it_does_not_run_if_its_parent_has_died():
    order = json.dumps(asdict(Confinement(parent=1)))
    command = [sys.executable, "-I", "-S", confine.__file__, order, "true"]
    assert subprocess.run(command, check=False).returncode == confine.EXIT_CANNOT_RUN


@needs_landlock
def test_only_the_named_folders_can_be_read_and_written(tmp_path, open_dirs):
    for name in ("own", "data", "secret"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    bounds = {
        "readable": [*open_dirs["readable"], str(tmp_path / "data")],
        "writable": ["/dev", str(tmp_path / "own")],
    }

    def can(command):
        return run("sh", "-c", command, **bounds).returncode == 0

    assert can(f"cat {tmp_path}/own/file")
    assert can(f"echo x > {tmp_path}/own/new")
    assert can(f"cat {tmp_path}/data/file")
    assert not can(f"echo x > {tmp_path}/data/new")
    assert not can(f"cat {tmp_path}/secret/file")
    assert not can(f"ls {tmp_path}/secret")
    assert (tmp_path / "own" / "new").read_text() == "x\n"


@needs_landlock
def test_its_children_have_the_same_restrictions(tmp_path, open_dirs):
    (tmp_path / "secret").write_text("x")
    done = run("sh", "-c", f"sh -c 'cat {tmp_path}/secret'", **open_dirs)
    assert done.returncode != 0
    assert "Permission denied" in done.stderr


@needs_landlock
def test_the_supervisors_environment_cannot_be_read(open_dirs):
    assert run("cat", f"/proc/{os.getpid()}/environ", **open_dirs).returncode != 0


def test_file_sizes_are_limited(tmp_path, open_dirs):
    bounds = {**open_dirs, "writable": ["/dev", str(tmp_path)], "max_file_bytes": 1000}
    done = run("sh", "-c", f"head -c 5000 /dev/zero > {tmp_path}/big", **bounds)
    assert done.returncode in (128 + signal.SIGXFSZ, 1, -signal.SIGXFSZ)
    assert (tmp_path / "big").stat().st_size <= 1000


def test_when_memory_runs_out_the_script_is_killed_before_the_worker(open_dirs):
    assert int(run("cat", "/proc/self/oom_score_adj", **open_dirs).stdout) >= 800


def test_the_number_of_open_files_is_limited(open_dirs):
    assert int(run("sh", "-c", "ulimit -Hn", **open_dirs).stdout) <= confine.MAX_OPEN_FILES


def test_no_core_dump_is_written(open_dirs):
    assert run("sh", "-c", "ulimit -c", **open_dirs).stdout == "0\n"


@needs_landlock
def test_a_script_can_read_only_its_data_and_the_workers_python(paths, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "x").touch()
    key = tmp_path / "worker.key"
    key.write_text("rk_secret")
    bounds = Bounds(paths, Limits(), readable=[data])
    code = "import sys, os, json; print(os.listdir(sys.argv[1])); open(sys.argv[2])"
    command = bounds.command([sys.executable, "-c", code, str(data), str(key)])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "['x']\n"
    assert "PermissionError" in done.stderr
    assert Path(confine.__file__).exists()
