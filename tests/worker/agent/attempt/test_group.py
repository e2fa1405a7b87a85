import os
import signal
import subprocess
import sys
import time

from worker.agent.attempt.group import read_group
from worker.script.bounds.processes import find_descendants

BUSY = """
import time
block = b"x" * 64_000_000
end = time.process_time() + 0.3
while time.process_time() < end:
    pass
print("done", flush=True)
time.sleep(60)
"""


def test_a_group_consists_of_all_its_processes_and_no_others(tmp_path):
    for pid, group, name in ((10, 10, "python"), (11, 10, "a (b) c"), (12, 99, "other")):
        folder = tmp_path / str(pid)
        folder.mkdir()
        fields = ["S", "1", str(group), *("0" for _ in range(8)), "100", "50", "20", "30", "0"]
        (folder / "stat").write_text(f"{pid} ({name}) {' '.join(fields)} 0 0 0")
        (folder / "statm").write_text("5000 300 100 1 0 1 0")
    (tmp_path / "meminfo").write_text("")
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    usage = read_group(10, proc_dir=tmp_path)
    assert usage.cpu_seconds == 400 / ticks
    assert usage.memory_bytes == (200 + 200 + 100) * page


SUPERVISOR = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], start_new_session=True)
child.wait()
"""


def test_descendants_that_detached_themselves_belong_to_the_group():
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, BUSY], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert supervisor.stdout.readline() == b"done\n"
        usage = read_group(supervisor.pid)
        assert usage.cpu_seconds >= 0.28
        assert usage.memory_bytes > 64_000_000
    finally:
        for pid in find_descendants(supervisor.pid).pids:
            os.kill(pid, signal.SIGKILL)
        supervisor.communicate()


def test_a_group_that_has_ended_uses_nothing(tmp_path):
    (tmp_path / "10").mkdir()
    assert read_group(10, proc_dir=tmp_path) is None


def test_a_group_of_unreaped_zombies_has_ended():
    child = subprocess.Popen([sys.executable, "-c", "print()"], stdout=subprocess.PIPE,
                             start_new_session=True)  # fmt: skip
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert read_group(child.pid) is None
    finally:
        child.communicate()


def test_a_real_group_reports_its_cpu_time_and_memory():
    child = subprocess.Popen(
        [sys.executable, "-c", BUSY], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert child.stdout.readline() == b"done\n"
        usage = read_group(child.pid)
        assert usage.cpu_seconds >= 0.28
        assert usage.memory_bytes > 64_000_000
    finally:
        child.kill()
        child.communicate()
    deadline = time.monotonic() + 5
    while read_group(child.pid) is not None:
        assert time.monotonic() < deadline
