import os
from datetime import UTC, datetime, timedelta

import pytest

from redkiln.views.hardware import GpuFacts
from worker.hardware import peers
from worker.hardware.peers import (
    PeerVerdict,
    TrialStopped,
    describe_end,
    describe_failure,
    is_believed,
    judge_peers,
    load_verdicts,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
KEYS = ("0000:03:00.0", "0000:43:00.0")


def verdict(*, at=NOON, boot="a", passed=True, environment=None, problem=""):
    return PeerVerdict(
        at=at,
        gpus=KEYS,
        torch="2.13",
        driver="amdgpu 6",
        has_passed=passed,
        environment=environment or {},
        problem=problem,
        boot_id=boot,
    )


@pytest.mark.parametrize(
    ("known", "hours", "boot", "is_kept"),
    [
        (verdict(), 10_000, "b", True),
        (verdict(passed=False), 0.5, "a", True),
        (verdict(passed=False), 0.5, "b", False),
        (verdict(passed=False), 2, "a", False),
        (verdict(environment={"NCCL_P2P_DISABLE": "1"}), 100, "a", True),
        (verdict(environment={"NCCL_P2P_DISABLE": "1"}), 100, "b", False),
    ],
)
def test_how_long_a_verdict_counts(known, hours, boot, is_kept):
    now = verdict(at=NOON + timedelta(hours=hours), boot=boot)
    assert is_believed(known, now=now) == is_kept


@pytest.mark.parametrize(
    ("status", "errors", "words"),
    [
        (1, "Timeout (0:01:00)!\nThread 0x1\n", "waited for each other for 60 s"),
        (None, "", "did not finish"),
        (4, "3 of 1024 sums of 4096 bytes are wrong\n", "status 4: 3 of 1024 sums"),
        (-11, "", "it printed nothing"),
    ],
)
def test_the_end_of_a_trial_is_described(status, errors, words):
    assert words in describe_end(1, status, errors, exchange_seconds=60.0)


def test_a_failure_says_what_to_try():
    text = describe_failure(verdict(passed=False, problem="a hang"))
    assert all(word in text for word in (*KEYS, "a hang", "iommu=pt", "NCCL_P2P_DISABLE=1"))


def judge(cache_dir, **changes):
    options = {"num_ranks": 2, "device_type": "cpu", "environ": os.environ, "cache_dir": cache_dir}
    return judge_peers([], **{**options, **changes})


@pytest.mark.usefixtures("fork_ranks")
def test_two_processes_exchange_known_numbers_only_once(tmp_path, monkeypatch):
    found = judge(tmp_path)
    assert (found.has_passed, found.problem, found.environment) == (True, "", {})
    assert found.bytes_per_second > 0
    monkeypatch.setattr(peers, "_try", None)
    assert judge(tmp_path) == found
    assert load_verdicts(tmp_path) == [found]


@pytest.mark.usefixtures("fork_ranks")
def test_an_exchange_that_takes_too_long_is_a_hang(tmp_path):
    found = judge(tmp_path, exchange_seconds=0.001)
    assert not found.has_passed
    assert "a hang" in found.problem


@pytest.mark.usefixtures("fork_ranks")
def test_a_trial_that_is_not_needed_any_more_ends(tmp_path):
    with pytest.raises(TrialStopped):
        judge(tmp_path, should_stop=lambda: True)
    assert not load_verdicts(tmp_path)


@pytest.fixture
def tries(monkeypatch):
    """Trials that go as a test says, and the environments that they ran in."""
    made = []

    def arrange(*results):
        answers = list(results)

        def attempt(_, *, environ, **__):
            made.append(environ.get("NCCL_P2P_DISABLE"))
            return answers.pop(0)

        monkeypatch.setattr(peers, "_try", attempt)
        return made

    return arrange


def test_gpus_that_hang_are_tried_through_main_memory(tmp_path, tries):
    made = tries((None, "a hang"), (1e9, ""))
    found = judge(tmp_path, device_type="cuda", environ={})
    assert made == [None, "1"]
    assert (found.has_passed, found.problem) == (True, "a hang")
    assert found.environment == {"NCCL_P2P_DISABLE": "1"}


def test_gpus_that_hang_either_way_do_not_pass(tmp_path, tries):
    tries((None, "a hang"), (None, "another hang"))
    found = judge(tmp_path, device_type="cuda", environ={})
    assert (found.has_passed, found.problem) == (False, "a hang")


def test_the_users_settings_are_tried_unchanged_under_a_separate_key(tmp_path, tries):
    made = tries((None, "a hang"), (None, "a hang"), (1e9, ""))
    assert not judge(tmp_path, device_type="cuda", environ={}).has_passed
    assert judge(tmp_path, device_type="cuda", environ={"NCCL_P2P_DISABLE": "1"}).has_passed
    assert made == [None, "1", "1"]


def test_a_trial_that_is_started_by_hand_does_not_hang_a_host_with_rdna4_cards(
    tries, monkeypatch, capsys
):
    cards = [
        GpuFacts(node=node, gfx="gfx1201", pci_address=f"0000:0{node}:00.0") for node in (1, 2)
    ]
    monkeypatch.setattr(peers, "discover_gpus", lambda: cards)
    monkeypatch.delenv("NCCL_P2P_DISABLE", raising=False)
    made = tries((1e9, ""))
    assert peers.main(["2"]) == 0
    assert made == ["1"]
    assert '"has_passed": true' in capsys.readouterr().out


@pytest.mark.gpu
def test_the_gpus_of_this_machine_exchange_known_numbers(tmp_path):
    import torch

    num_gpus = torch.cuda.device_count()
    if num_gpus < 2:
        pytest.skip("this machine has one GPU")
    found = judge(tmp_path, device_type="cuda", num_ranks=num_gpus)
    assert found.has_passed, found.problem
