"""Each trial runs in a separate process; how it ends is the verdict."""

import json
import os
import sys

import pytest

from tests.worker.hardware.doctor.made_machine import AT
from worker.hardware.doctor.evidence import Torch
from worker.hardware.doctor.trials import trials
from worker.hardware.doctor.trials.trials import run_one, run_trials
from worker.hardware.peers import PeerVerdict


def ended(script, limit=60.0):
    return run_one(
        "copy", [sys.executable, "-c", script], device="cpu", environ=os.environ, limit=limit
    )


def printed(**told):
    return f"print({json.dumps(json.dumps({'error': 0.0, 'allowed': 0.1, 'seconds': 0.2} | told))})"


def test_right_numbers_pass():
    found = ended(printed())
    assert (found.name, found.verdict, found.seconds) == ("first copy", "passed", 0.2)


@pytest.mark.parametrize("error", [0.2, None])
def test_numbers_that_differ_or_are_not_finite_are_wrong(error):
    assert ended(printed(error=error)).verdict == "wrong"


def test_a_crash_names_its_signal_and_last_line():
    found = ended("import os, sys; print('GPU Hang', file=sys.stderr, flush=True); os.abort()")
    assert found.verdict == "crashed"
    assert found.detail == "SIGABRT: GPU Hang"
    assert ended("raise SystemExit(3)").detail == "exit status 3: it printed nothing"


def test_a_trial_that_does_not_end_is_killed():
    found = ended("import time; time.sleep(60)", limit=0.2)
    assert (found.verdict, found.seconds) == ("hung", 0.2)


@pytest.fixture
def told(monkeypatch):
    """The commands that would run, and a trial of the links that passes."""
    commands = []

    def run(name, command, *, device, environ, limit):
        commands.append([*command[2:], device])
        return trials.DoctorTrial(name=name, device=device, verdict="passed")

    def judge(gpus, *, num_ranks, device_type, environ, cache_dir):
        return PeerVerdict(
            at=AT, gpus=("x",), torch=None, driver=None, has_passed=False,
            problem="they waited for each other for 20 s (a hang)",
        )  # fmt: skip

    monkeypatch.setattr(trials, "run_one", run)
    monkeypatch.setattr(trials, "judge_peers", judge)
    return commands


def test_the_first_gpu_is_tried_if_torch_opens_one(told):
    found = run_trials(Torch("2.13", hip="7", num_devices=1), environ={})
    assert {command[-1] for command in told} == {"cuda:0"}
    assert found[-1].verdict == "skipped"


def test_a_hang_of_the_links_is_told_as_one(told):
    found = run_trials(Torch("2.13", hip="7", num_devices=2), environ={})
    assert (found[-1].device, found[-1].verdict) == ("2 x cuda", "hung")
    assert len(told) == 4
