import json
import os
import time

import pytest

from redkiln.status import Phase
from redkiln.views.job import Progress
from worker.trainer import compiling
from worker.trainer.compiling import QUIET_SECONDS, KernelWatch, watch_kernels


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def events(tmp_path):
    def read():
        return [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]

    return read


@pytest.fixture
def kernels(tmp_path):
    folder = tmp_path / "kernels" / "miopen"
    folder.mkdir(parents=True)
    return folder


def test_new_kernels_count_as_life_and_are_a_phase_with_a_count(
    clock, events, kernels, make_event_log
):
    event_log = make_event_log()
    event_log.enter(Phase.TRAINING)
    event_log.progress(Progress(step=7))
    (kernels / "old.kdb").touch()
    watch = KernelWatch([kernels], event_log)

    clock[0] += QUIET_SECONDS
    watch.look()  # the first look only remembers
    for name in ("a", "b"):
        (kernels / f"{name}.kdb").touch()
        clock[0] += QUIET_SECONDS
        watch.look()

    assert [event["kind"] for event in events()] == [
        "phase",
        "progress",
        "phase",
        *["progress"] * 2,
    ]
    assert events()[2]["data"] == {"phase": "compiling"}
    assert events()[-1]["data"]["activity"] == "compiling kernels: 3 files, 2 new"
    assert events()[-1]["data"]["step"] == 7


def test_a_growing_file_is_life_too(clock, events, kernels, make_event_log):
    event_log = make_event_log()
    watch = KernelWatch([kernels], event_log)
    (kernels / "db").write_text("1")
    clock[0] += QUIET_SECONDS
    watch.look()
    (kernels / "db").write_text("12")
    watch.look()

    assert events()[-1]["data"]["activity"] == "compiling kernels: 1 file, 0 new"


def test_a_trainer_that_hangs_stays_silent(clock, events, kernels, make_event_log):
    event_log = make_event_log()
    (kernels / "db").touch()
    watch = KernelWatch([kernels, kernels / "missing"], event_log)
    for _ in range(50):
        clock[0] += QUIET_SECONDS
        watch.look()

    assert events() == []
    assert event_log.silent_seconds == 50 * QUIET_SECONDS


def test_the_phase_is_training_again_after_compiling(clock, events, kernels, make_event_log):
    event_log = make_event_log()
    event_log.enter(Phase.TRAINING)
    watch = KernelWatch([kernels], event_log)
    clock[0] += QUIET_SECONDS
    watch.look()
    (kernels / "db").touch()
    clock[0] += QUIET_SECONDS
    watch.look()
    clock[0] += 1
    event_log.progress(Progress(step=1))
    clock[0] += 1
    watch.look()
    clock[0] += QUIET_SECONDS
    watch.look()

    shown = [event["data"]["phase"] for event in events() if event["kind"] == "phase"]
    assert shown == ["training", "compiling", "training"]


def test_nothing_is_read_while_training_reports(clock, kernels, make_event_log, monkeypatch):
    event_log = make_event_log()
    monkeypatch.setattr(os, "walk", lambda _: pytest.fail("read"))
    clock[0] += 1
    KernelWatch([kernels], event_log).look()


def test_a_thread_looks_until_the_block_ends(events, kernels, make_event_log, monkeypatch):
    monkeypatch.setattr(compiling, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(compiling, "QUIET_SECONDS", 0.0)
    with watch_kernels(make_event_log(), {"MIOPEN_USER_DB_PATH": str(kernels)}):
        for number in range(10_000):
            (kernels / str(number)).touch()
            if any(event["kind"] == "progress" for event in events()):
                break
            time.sleep(0.001)

    assert events()[-1]["data"]["activity"].startswith("compiling kernels")
