import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUN = "import sys, os; from docker.supervise import supervise; sys.exit(supervise(sys.argv[1:], environment=os.environ))"  # noqa: E501  one program


@pytest.fixture
def start():
    children = []

    def run(*command):
        child = subprocess.Popen(
            [sys.executable, "-c", RUN, *command],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        children.append(child)
        return child

    yield run
    for child in children:
        # A command that survives its supervisor would keep the pipes open.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143)]
)
def test_the_container_exits_with_the_commands_status(start, script, status):
    child = start("sh", "-c", script)
    assert child.wait(60) == status


def test_an_unknown_command_has_its_own_exit_status(start):
    assert start("no-such-program").wait(60) == 127


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_command(start, number):
    name = signal.Signals(number).name.removeprefix("SIG")
    loop = f"trap 'echo heard; exit 3' {name}; echo ready; while :; do sleep 0.02; done"
    child = start("sh", "-c", loop)
    assert child.stdout.readline() == "ready\n"
    child.send_signal(number)
    assert child.wait(60) == 3
    assert child.stdout.read() == "heard\n"


def test_orphans_are_reaped_while_the_command_runs(start):
    adopt = (
        "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1); " + RUN
    )  # a subreaper, as PID 1
    script = "(sh -c 'sleep 0.05' & echo $!); sleep 30"
    child = subprocess.Popen(
        [sys.executable, "-c", adopt, "sh", "-c", script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        orphan = int(child.stdout.readline())
        deadline = time.monotonic() + 10
        while Path(f"/proc/{orphan}").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not Path(f"/proc/{orphan}").exists()
        assert child.poll() is None
    finally:
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 128 + signal.SIGTERM
        child.stdout.close()


def test_the_command_starts_with_no_signal_blocked(start):
    child = start("sh", "-c", "grep SigBlk /proc/self/status")
    assert child.stdout.read().split()[1].strip("0") == ""


def test_exec_keeps_its_own_environment():
    program = RUN.replace("os.environ", "{'ONLY': 'this', 'PATH': os.environ['PATH']}")
    shown = subprocess.run(
        [sys.executable, "-c", program, "env"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "ONLY=this" in shown.stdout
    assert f"HOME={os.environ.get('HOME')}" not in shown.stdout
