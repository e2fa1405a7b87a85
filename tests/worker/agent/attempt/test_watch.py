import signal
import subprocess
import sys
import time

import pytest

from redkiln.events import EventKind, EventWriter
from tests.waiting import is_alive, wait_for
from worker.agent.attempt.spool import EventSpool
from worker.agent.attempt.watch import Limits, Watch
from worker.agent.children.children import Spawner
from worker.agent.stopping import StopReason, StopSignal


@pytest.fixture
def stop():
    signal = StopSignal()
    yield signal
    signal.close()


@pytest.fixture
def run(tmp_path, stop):
    children = []

    def run(program, *, stall_seconds=60.0, seconds=None, grace_seconds=5.0):
        spool = EventSpool.at_end(tmp_path / "events.jsonl")
        child = Spawner().spawn(
            [sys.executable, "-c", program, str(tmp_path / "events.jsonl")],
            environment={},
            working_dir=tmp_path,
        )
        children.append(child)
        events = []
        watch = Watch(
            child,
            spool,
            stop,
            Limits(
                stall_seconds,
                None if seconds is None else time.monotonic() + seconds,
                {StopReason.CANCELLED: grace_seconds, StopReason.TOO_LONG: grace_seconds},
            ),
            events.append,
        )
        return watch.until_exit(), events

    yield run
    for child in children:
        child.reap()


SLEEP = "import time; time.sleep(60)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
POLITE = (
    "import signal, sys, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\n"
    "time.sleep(60)"
)
TALK = (
    "import sys, time\n"
    "for n in range(3):\n"
    "    open(sys.argv[1], 'a').write("
    '\'{"at":"2026-01-01T00:00:00Z","kind":"message","data":{}}\\n\')\n'
    "    time.sleep(0.3)"
)


def test_events_are_passed_on_up_to_the_last(run, tmp_path):
    with EventWriter(tmp_path / "events.jsonl") as events:
        events.write(EventKind.MESSAGE, text="from before")
    status, events = run(TALK)
    assert (status, len(events)) == (0, 3)


def test_a_silent_child_is_killed(run, stop):
    status, _ = run(SLEEP, stall_seconds=0.3)
    assert (status, stop.reason) == (-signal.SIGKILL, StopReason.STALLED)


def test_events_keep_a_child_alive(run, stop):
    assert run(TALK, stall_seconds=0.5)[0] == 0
    assert stop.reason is None


def test_a_child_that_runs_too_long_gets_sigterm(run, stop):
    assert run(SLEEP, seconds=0.2)[0] == -signal.SIGTERM
    assert stop.reason == StopReason.TOO_LONG


def test_a_cancel_is_sigterm_and_then_sigkill(run, stop):
    stop.request(StopReason.CANCELLED)
    assert run(DEAF, grace_seconds=0.4)[0] in (-signal.SIGKILL, -signal.SIGTERM)


def test_being_superseded_is_sigkill_at_once(run, stop):
    stop.request(StopReason.SUPERSEDED)
    assert run(POLITE)[0] == -signal.SIGKILL


def test_a_pause_of_the_agent_does_not_count_as_silence(tmp_path, stop):
    times = iter([0.0, 0.1, 1000.0, 1000.1, 1000.2])
    child = Spawner().spawn(
        [sys.executable, "-c", "import time; time.sleep(0.05)"],
        environment={},
        working_dir=tmp_path,
    )
    watch = Watch(
        child,
        EventSpool.at_end(tmp_path / "none"),
        stop,
        Limits(10.0, None, {}),
        lambda _: None,
        clock=lambda: next(times, 1000.3),
    )
    assert watch.until_exit() == 0
    assert stop.reason is None


def test_the_children_of_a_child_end_with_it(tmp_path):
    child = Spawner().spawn(
        ["/bin/sh", "-c", "sleep 60 & echo $!; exit 0"],
        environment={"PATH": "/bin:/usr/bin"},
        working_dir=tmp_path,
        stdout=subprocess.PIPE,
    )
    pid = int(child.stdout.readline())
    assert child.wait(60)
    assert child.reap() == 0
    wait_for(lambda: not is_alive(pid), seconds=60)


def test_a_missing_program_raises_in_the_caller(tmp_path):
    with pytest.raises(FileNotFoundError):
        Spawner().spawn(["/no/such/program"], environment={}, working_dir=tmp_path)
