import os
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from redkiln.tasks.script import Limits
from tests.waiting import wait_for
from worker.agent.workdir import end_old_processes
from worker.script.bounds import control_group as control_group_module
from worker.script.bounds.bounds import Bounds
from worker.script.bounds.control_group import ControlGroup, _find_own, find_parent
from worker.script.bounds.processes import end_strays
from worker.script.program.paths import ScriptPaths

NEEDS_GROUPS = pytest.mark.skipif(
    find_parent() is None, reason="this process cannot make control groups (cgroup v2)"
)
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-S", "-c", sys.argv[1]], {})
    os._exit(0)
os.wait()
"""
"""A daemon without variables: no descendant of its starter, and nothing says whose it is."""


@pytest.fixture
def group(tmp_path):
    group = ControlGroup.of(tmp_path / "jobs" / "att_1")
    yield group
    if group is not None:
        group.end()


def start_daemon(tmp_path, group):
    """Run a script that leaves a daemon."""
    paths = ScriptPaths(tmp_path / "jobs" / "att_1" / "script")
    paths.prepare()
    bounds = Bounds(paths, Limits(), control_group=None if group is None else group.path)
    mark = f"import time  # {tmp_path}\nwhile True: time.sleep(60)"
    words = [sys.executable, "-S", "-c", textwrap.dedent(DAEMON), mark]
    subprocess.run(
        bounds.command(words),
        cwd=paths.code_dir,
        env={**os.environ, "REDKILN_OUT": str(paths.out_dir)},
        check=True,
        timeout=60,
    )
    wait_for(lambda: find_daemon(str(tmp_path)))


def find_daemon(mark):
    for process in psutil.process_iter(["cmdline", "ppid"]):
        words = process.info["cmdline"] or []
        # Its parent, before it replaces itself, has the program of both as a fifth word.
        if len(words) == 4 and mark in words[-1] and words[1] == "-S":
            return process
    return None


@NEEDS_GROUPS
def test_a_daemon_without_variables_ends_with_its_group(tmp_path, group):
    group.make()
    start_daemon(tmp_path, group)
    assert end_strays(tmp_path / "jobs" / "att_1") == 0, "nothing else finds it"
    assert group.end() == 1
    assert find_daemon(str(tmp_path)) is None
    assert not group.path.exists()


@NEEDS_GROUPS
def test_a_script_cannot_leave_its_group(tmp_path, group):
    group.make()
    paths = ScriptPaths(tmp_path / "script")
    paths.prepare()
    code = f"open({str(group.path.parent / 'cgroup.procs')!r}, 'w').write('0')"
    command = Bounds(paths, Limits(), control_group=group.path).command(
        [sys.executable, "-c", code]
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "PermissionError" in done.stderr


@NEEDS_GROUPS
def test_a_worker_ends_what_a_killed_one_has_left(tmp_path, group):
    group.make()
    start_daemon(tmp_path, group)
    other = ControlGroup.of(tmp_path / "others" / "att_1")
    other.make()
    try:
        end_old_processes(tmp_path / "jobs")
        assert find_daemon(str(tmp_path)) is None
        assert other.path.exists(), "another worker's"
    finally:
        other.end()


def test_a_group_that_is_gone_has_ended(tmp_path):
    assert ControlGroup(tmp_path / "group").end() == 0


def test_a_worker_without_groups_makes_none(monkeypatch, tmp_path):
    monkeypatch.setattr(control_group_module, "find_parent", lambda: None)
    assert ControlGroup.of(tmp_path / "att_1") is None
    end_old_processes(tmp_path)


@pytest.mark.parametrize(
    ("group", "root", "found"),
    [
        ("/", "/", "/sys/fs/cgroup"),
        ("/user.slice/a", "/", "/sys/fs/cgroup/user.slice/a"),
        ("/docker/1/a", "/docker/1", "/sys/fs/cgroup/a"),
        ("/elsewhere", "/docker/1", None),
    ],
)
def test_the_own_group_is_found_below_its_mount(tmp_path, group, root, found):
    (tmp_path / "cgroup").write_text(f"1:name=systemd:/other\n0::{group}\n")
    (tmp_path / "mountinfo").write_text(
        "22 1 8:1 / / rw - ext4 /dev/sda rw\n"
        f"30 22 0:26 {root} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
    )
    assert _find_own(tmp_path) == (None if found is None else Path(found))


def test_without_cgroup_v2_there_is_no_group(tmp_path):
    assert _find_own(tmp_path) is None
    (tmp_path / "cgroup").write_text("1:name=systemd:/\n")
    (tmp_path / "mountinfo").write_text("22 1 8:1 / / rw - ext4 /dev/sda rw\n")
    assert _find_own(tmp_path) is None
