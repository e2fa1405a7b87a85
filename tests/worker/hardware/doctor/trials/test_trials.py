"""Each trial runs in a separate process; how it ends is the verdict."""

import json
import os
import sys
from dataclasses import replace

import pytest

from tests.worker.hardware.doctor.made_machine import (
    AT,
    CARD,
    CPU_BUILD,
    HEALTHY,
    INTEGRATED,
    OTHER_CARD,
    ROCM,
)
from worker.hardware.choose import gpu_key
from worker.hardware.doctor.trials import trials
from worker.hardware.doctor.trials.trials import run_one, run_trials
from worker.hardware.leases import Holder, LeaseFolder
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
    """The commands that would run, and the trials of the links, which hang."""
    commands, links = [], []

    def run(name, command, *, device, environ, limit):
        commands.append(command[-1])
        return trials.DoctorTrial(name=name, device=device, verdict="passed")

    def judge(gpus, *, num_ranks, device_type, environ, cache_dir):
        links.append((num_ranks, dict(environ)))
        return PeerVerdict(
            at=AT, gpus=("x",), torch=None, driver=None, has_passed=False,
            problem="they waited for each other for 20 s (a hang)",
        )  # fmt: skip

    monkeypatch.setattr(trials, "run_one", run)
    monkeypatch.setattr(trials, "judge_peers", judge)
    return commands, links


def seen(*gpus, num_devices=None):
    torch = replace(ROCM, num_devices=len(gpus) if num_devices is None else num_devices)
    return replace(HEALTHY, gpus=gpus, torch=torch)


def tried(evidence, tmp_path, environ=()):
    return run_trials(evidence, environ=dict(environ), lock_dir=tmp_path / "locks")


def test_without_a_gpu_the_cpu_is_tried(told, tmp_path):
    found = tried(replace(HEALTHY, gpus=(), torch=CPU_BUILD), tmp_path)
    assert set(told[0]) == {"cpu"}
    assert found[-1].device == "2 x cpu"
    assert not (tmp_path / "locks").exists()


def test_each_discrete_gpu_is_tried_and_the_one_inside_the_processor_is_not(told, tmp_path):
    first = INTEGRATED.model_copy(update={"node": 1})
    card = CARD.model_copy(update={"node": 2})
    other = OTHER_CARD.model_copy(update={"node": 3})
    tried(seen(first, card, other), tmp_path)
    assert list(dict.fromkeys(told[0])) == ["cuda:1", "cuda:2"]
    assert told[1] == [(2, {"ROCR_VISIBLE_DEVICES": f"{card.uuid},{other.uuid}"})]


def test_a_processor_without_a_card_is_tried_and_exchanges_nothing(told, tmp_path):
    found = tried(seen(INTEGRATED), tmp_path)
    assert set(told[0]) == {"cuda:0"}
    assert found[-1].verdict == "skipped"


def test_a_gpu_of_which_the_driver_says_nothing_is_torchs_first(told, tmp_path):
    tried(seen(num_devices=1), tmp_path)
    assert set(told[0]) == {"cuda:0"}


def test_a_gpu_that_a_job_uses_is_skipped(told, tmp_path):
    folder = LeaseFolder(tmp_path / "locks")
    (lease,) = folder.take([gpu_key(CARD)])
    lease.describe(Holder(worker_id="w", attempt_id="att_7"))
    found = tried(seen(CARD, OTHER_CARD), tmp_path)
    assert set(told[0]) == {"cuda:1"}
    skipped = [(each.device, each.detail) for each in found if each.verdict == "skipped"]
    assert skipped == [("cuda:0", "attempt att_7 uses it"), ("cuda", "attempt att_7 uses it")]
    lease.close()
    assert len(tried(seen(CARD), tmp_path)) == 5  # nothing was kept


def test_a_folder_of_leases_that_cannot_be_used_is_named(told, tmp_path):
    (tmp_path / "locks").write_text("a file")
    found = tried(seen(CARD), tmp_path)
    assert told[0] == []
    assert "locks cannot be used" in found[0].detail


@pytest.mark.parametrize(
    ("gfx", "user", "wanted"),
    [
        ("gfx1201", {}, "1"),
        ("gfx1200", {}, "1"),
        ("gfx1201", {"NCCL_P2P_DISABLE": "0"}, "0"),
        ("gfx1100", {}, None),
    ],
)
def test_rdna4_cards_do_not_write_to_each_other_in_the_first_trial(
    told, tmp_path, gfx, user, wanted
):
    gpus = [card.model_copy(update={"gfx": gfx}) for card in (CARD, OTHER_CARD)]
    found = tried(seen(*gpus), tmp_path, user)
    ((num_ranks, environ),) = told[1]
    assert (num_ranks, environ.get("NCCL_P2P_DISABLE")) == (2, wanted)
    assert (found[-1].device, found[-1].verdict) == ("2 x cuda", "hung")
