import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from worker.script.bounds.usage import Paced, measure
from worker.script.heartbeat import Heartbeat
from worker.script.program.kept import drop_unused, hold_folder

MUCH = 10**12
HOLD = """
import os, sys
from pathlib import Path
from worker.script.program.kept import hold_folder
def make(folder):
    folder.mkdir()
    (folder / "content").write_bytes(os.urandom(int(sys.argv[2])))
hold_folder(Path(sys.argv[1]), make=make, is_whole=Path.is_dir, beat=lambda: None)
print("held", flush=True)
sys.stdin.read()
"""


def make(folder, *, num_bytes=0):
    """As a job that has ended made it."""
    command = [sys.executable, "-c", HOLD, folder, str(num_bytes)]
    subprocess.run(command, input=b"", check=True)


def names(parent):
    return {path.name for path in parent.iterdir() if path.is_dir()}


def age(folder, *, days):
    then = time.time() - days * 86_400
    os.utime(folder, (then, then))


def test_a_folder_is_made_once_and_remade_if_incomplete(tmp_path):
    made = []

    def fill(folder):
        made.append(sorted(path.name for path in tmp_path.iterdir()))
        folder.mkdir()
        (folder / "mark").touch()

    def hold():
        return hold_folder(
            tmp_path / "a", make=fill, is_whole=lambda f: (f / "mark").exists(), beat=print
        )

    (tmp_path / "a").mkdir()  # what an installation that was killed has left
    (tmp_path / "a" / "half").touch()
    assert (hold(), hold()) == (True, False)
    assert made == [["a.lock"]]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["mark"]


def test_folders_unused_for_long_and_the_oldest_of_many_are_removed(tmp_path):
    for days, name in enumerate("abcde"):
        make(tmp_path / name)
        age(tmp_path / name, days=10 * days)
    assert set(drop_unused(tmp_path, num_kept=20, max_bytes=MUCH)) == {"d", "e"}
    assert set(drop_unused(tmp_path, num_kept=1, max_bytes=MUCH)) == {"b", "c"}
    assert {path.name for path in tmp_path.iterdir()} == {"a", "a.lock"}


@pytest.mark.parametrize("is_noted", [True, False])
def test_beyond_a_total_size_the_least_recently_used_are_removed(tmp_path, is_noted):
    for days, name in enumerate("abc"):
        make(tmp_path / name, num_bytes=100_000)
        age(tmp_path / name, days=days)
        if not is_noted:  # of an earlier release
            (tmp_path / f"{name}.lock").write_text("")
    assert drop_unused(tmp_path, num_kept=20, max_bytes=250_000) == ["c"]
    assert drop_unused(tmp_path, num_kept=20, max_bytes=150_000) == ["b"]
    assert names(tmp_path) == {"a"}


def test_a_folder_in_use_is_kept_whatever_its_age(tmp_path):
    command = [sys.executable, "-c", HOLD, tmp_path / "a", "0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdout.readline() == b"held\n"
        age(tmp_path / "a", days=100)
        assert drop_unused(tmp_path, num_kept=0, max_bytes=0) == []
        assert names(tmp_path) == {"a"}
        user.stdin.close()
    assert drop_unused(tmp_path, num_kept=0, max_bytes=MUCH) == ["a"]
    assert names(tmp_path) == set()


def test_waiting_for_another_job_is_reported(tmp_path):
    lock = (tmp_path / "a.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    beats = []

    def beat():
        beats.append(1)
        lock.close()

    assert hold_folder(tmp_path / "a", make=Path.mkdir, is_whole=Path.is_dir, beat=beat)
    assert beats


def test_a_heartbeat_reports_the_duration_but_not_too_often():
    said = []
    times = iter([0.0, 1.0, 29.0, 31.0, 40.0, 62.0])
    heartbeat = Heartbeat(said.append, "installing", clock=lambda: next(times))
    for _ in range(5):
        heartbeat.beat()
    assert said == ["still installing after 31 s", "still installing after 62 s"]


def test_hidden_files_count_as_disk_use(tmp_path):
    (tmp_path / "home" / ".cache").mkdir(parents=True)
    (tmp_path / "home" / ".cache" / "x").write_bytes(os.urandom(500_000))
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 10**9)
    (tmp_path / "link").symlink_to("/")
    assert 450_000 < measure(tmp_path) < 700_000


def test_a_folder_that_is_slow_to_measure_is_measured_less_often(tmp_path):
    times = iter([0.0, 1.0, 2.0, 22.0, 22.0])
    use = Paced(measure, clock=lambda: next(times))
    use.look(tmp_path)
    (tmp_path / "x").write_bytes(os.urandom(100_000))
    assert use.look(tmp_path) == 0
    assert use.look(tmp_path) >= 100_000
