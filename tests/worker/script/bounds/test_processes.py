import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import wait_for
from worker.script.bounds.processes import end_strays, find_descendants

ROOT = Path(__file__).parents[4]
SUPERVISE = """
import subprocess, sys, time
from worker.script.bounds.processes import adopt_orphans, end_descendants, find_descendants
adopt_orphans()
child = subprocess.Popen(["sh", "-c", sys.argv[1]])
child.wait()
time.sleep(0.2)
print(len(find_descendants(__import__("os").getpid()).pids), flush=True)
print(end_descendants(grace_seconds=float(sys.argv[2]), waited_for=child.pid), flush=True)
"""


def supervise(command, *, grace_seconds=0.0):
    done = subprocess.run(
        [sys.executable, "-c", SUPERVISE, command, str(grace_seconds)],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return [int(line) for line in done.stdout.split()]


def is_running(mark):
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes():
                return True
        except OSError:
            continue
    return False


def test_children_of_children_are_found():
    child = subprocess.Popen(["sh", "-c", "sleep 30 & wait"])
    try:
        wait_for(lambda: find_descendants(child.pid).pids)
        found = find_descendants(child.pid)
        assert len(found.pids) == 1
        assert found.num_threads == 1
        assert found.memory_bytes > 0
    finally:
        for pid in find_descendants(child.pid).pids:
            os.kill(pid, 9)
        child.kill()
        child.wait()


@pytest.mark.parametrize("grace_seconds", [0.0, 0.5])
def test_a_scripts_daemon_ends_with_it(grace_seconds):
    mark = f"31{os.getpid()}"
    command = f"(setsid sleep {mark} &) ; (setsid sh -c 'trap \"\" TERM; sleep {mark}9; true' &)"
    left, ended = supervise(command, grace_seconds=grace_seconds)
    assert 2 <= left <= ended  # the shell may start its sleep while the others are counted
    assert not is_running(mark)


def test_without_descendants_nothing_is_ended():
    assert supervise("true") == [0, 0]


def test_strays_of_a_job_are_recognised_by_their_environment(tmp_path):
    ours = {**os.environ, "REDKILN_OUT": f"{tmp_path}/script/out"}
    others = {**os.environ, "REDKILN_OUT": f"{tmp_path}2/script/out"}
    stray = subprocess.Popen(["sleep", "60"], env=ours, start_new_session=True)
    other = subprocess.Popen(["sleep", "60"], env=others, start_new_session=True)
    try:
        # The kernel shows the variables a moment after the process has begun.
        for process in (stray, other):
            wait_for(Path(f"/proc/{process.pid}/environ").read_bytes)
        assert end_strays(tmp_path) == 1
        assert stray.wait(timeout=60) == -9
        assert other.poll() is None
    finally:
        for process in (stray, other):
            process.kill()
            process.wait()
