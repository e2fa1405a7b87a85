import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from native.processes import LEASH, Part, PartFailed, wait_until
from native.up import EXIT_CONFIG, MAX_CRASHES, Crashes
from tests.waiting import is_alive, wait_for


@pytest.fixture
def start(tmp_path):
    parts = []

    def start(program, **options):
        part = Part(
            "part",
            [sys.executable, "-c", program],
            environment=dict(os.environ),
            log_path=tmp_path / "logs" / "part.log",
            **options,
        )
        part.start()
        parts.append(part)
        return part

    yield start
    for part in parts:
        part.kill()


SLEEP = "import time; print('up', flush=True); time.sleep(60)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"


def test_a_part_is_stopped_by_sigterm(start):
    part = start(SLEEP)
    wait_for(lambda: "up" in part.read_log())
    part.stop()
    assert part.exit_status == -signal.SIGTERM


def test_a_part_that_ignores_sigterm_is_killed(start):
    part = start(DEAF, stop_seconds=0.2)
    wait_for(lambda: "up" in part.read_log())
    part.stop()
    assert part.exit_status == -signal.SIGKILL


def test_a_stopped_process_can_be_ended(start):
    part = start(SLEEP)
    wait_for(lambda: "up" in part.read_log())
    part.signal(signal.SIGSTOP)
    part.stop()
    assert part.exit_status == -signal.SIGTERM


def test_a_part_is_out_of_reach_of_the_terminals_ctrl_c(start):
    part = start(SLEEP)
    assert os.getsid(part.pid) == part.pid != os.getsid(0)


def test_the_error_of_an_ended_part_has_the_end_of_its_log(start):
    part = start("print('before')")
    part.wait(60)
    part._command = [sys.executable, "-c", "raise SystemExit('the port is taken')"]
    part.restart()
    with pytest.raises(PartFailed, match=r"status 1.*\n.*the port is taken") as caught:
        wait_until(lambda: False, part, timeout_seconds=60)
    assert "before" not in str(caught.value)


def test_a_part_that_is_never_ready_is_an_error(start):
    with pytest.raises(PartFailed, match="not ready"):
        wait_until(lambda: False, start(SLEEP), timeout_seconds=0.1)


def test_the_leash_ends_a_program_with_its_parent(tmp_path):
    pid_path = tmp_path / "pid"
    child = f"import os, time; open({str(pid_path)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    parent = (
        "import os, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, {str(LEASH)!r}, str(os.getpid()),"
        f" sys.executable, '-c', {child!r}])\n"
        "time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", parent])
    wait_for(lambda: pid_path.exists() and pid_path.read_text())
    pid = int(pid_path.read_text())
    assert Path(f"/proc/{pid}").exists()
    process.kill()
    process.wait()
    wait_for(lambda: not is_alive(pid))


def test_the_leash_starts_nothing_if_the_parent_is_gone():
    command = [sys.executable, str(LEASH), "1", "/bin/echo", "started"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")


class Ended:
    name = "worker"

    def __init__(self, exit_status):
        self.exit_status = exit_status


def test_a_crashing_part_is_restarted_a_few_times():
    crashes = Crashes()
    decisions = [crashes.should_restart(Ended(1), now=float(at)) for at in range(MAX_CRASHES + 1)]
    assert decisions == [True] * MAX_CRASHES + [False]
    assert crashes.should_restart(Ended(1), now=1000.0)


def test_a_misconfigured_part_is_not_restarted():
    assert not Crashes().should_restart(Ended(EXIT_CONFIG), now=0.0)
