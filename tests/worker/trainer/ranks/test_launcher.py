import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from redkiln.failure import FailureCode, JobFailure
from worker.hardware.peers import PeerVerdict
from worker.jobdir import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED, LEASES_VARIABLE
from worker.process.lifetime import StopSignal
from worker.trainer.ranks import launcher
from worker.trainer.ranks.launcher import (
    End,
    build_rank_environment,
    find_cause,
    is_rank,
    lead_ranks,
    threads_of_rank,
)

LOST = JobFailure.of(FailureCode.NO_PROGRESS, "lost", lost_rank=True)
FULL = JobFailure.of(FailureCode.OUT_OF_MEMORY, "full")


@pytest.mark.parametrize(
    ("ends", "cause"),
    [
        ([], None),
        ([End(0, EXIT_DONE), End(1, EXIT_STOPPED)], None),
        ([End(1, -9), End(0, EXIT_FAILED, LOST)], 1),
        ([End(0, EXIT_FAILED, LOST), End(1, -9)], 1),
        ([End(1, EXIT_FAILED, FULL), End(0, -9)], 1),
        ([End(0, EXIT_FAILED, LOST), End(1, EXIT_FAILED, LOST)], 0),
        ([End(0, EXIT_STOPPED), End(1, 1)], 1),
    ],
)
def test_the_cause_is_the_first_death_other_than_a_lost_peer(ends, cause):
    found = find_cause(ends)
    assert (None if found is None else found.rank) == cause


def test_a_rank_gets_torchruns_variables_and_the_loopback_interface():
    environ = build_rank_environment(
        {"NCCL_SOCKET_IFNAME": "eth0", "PATH": "/bin"}, rank=1, num_ranks=4, threads=3
    )
    assert is_rank(environ)
    assert not is_rank({"PATH": "/bin"})
    assert {name: environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")} == {
        "RANK": "1",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "4",
    }
    assert environ["REDKILN_PARENT_PID"] == str(os.getpid())
    assert (environ["GLOO_SOCKET_IFNAME"], environ["NCCL_SOCKET_IFNAME"]) == ("lo", "eth0")
    assert environ["OMP_NUM_THREADS"] == "3"


def test_ranks_share_threads_on_a_cpu_but_not_on_gpus(make_job):
    order = make_job(order={"num_ranks": 2}).load_order()
    order = order.model_copy(update={"threads": 3})
    assert threads_of_rank(order) == 1
    assert threads_of_rank(order.model_copy(update={"device": "cuda:0"})) == 3
    assert threads_of_rank(order.model_copy(update={"num_ranks": 8})) == 1


def verdict_of(**found):
    """A verdict on the links of GPUs that are not there."""
    keys = ("0000:03:00.0", "0000:43:00.0")
    return PeerVerdict(at=datetime.now(UTC), gpus=keys, torch=None, driver=None, **found)


PASSED = verdict_of(has_passed=True)
BROKEN = verdict_of(has_passed=False, problem="they waited for each other for 60 s (a hang)")


@pytest.fixture
def lead(make_job, monkeypatch, events):
    """Leads two ranks that are a line of Python each; gives the status and the events."""

    def run(code, *, verdict=None, stop=None, **spec):
        monkeypatch.setattr(launcher, "judge_peers", lambda *_, **__: verdict or PASSED)
        job_dir = make_job(order={"num_ranks": 2}, **spec)
        command = [sys.executable, "-c", f"import os, sys, time; rank = os.environ['RANK']; {code}"]
        status = lead_ranks(job_dir, job_dir.load_order(), stop or StopSignal(), command=command)
        return status, events(job_dir) if job_dir.events_path.exists() else [], job_dir

    return run


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("sys.exit(0)", EXIT_DONE),
        ("sys.exit(75)", EXIT_STOPPED),
        ("sys.exit(0 if rank == '1' else 75)", EXIT_STOPPED),
        ("os.kill(os.getpid(), 11) if rank == '1' else time.sleep(600)", -signal.SIGSEGV),
        ("os.kill(os.getpid(), 9) if rank == '0' else time.sleep(600)", -signal.SIGKILL),
        ("sys.exit(1) if rank == '1' else time.sleep(600)", 1),
    ],
)
def test_the_leader_exits_like_its_ranks(lead, code, status):
    assert lead(code)[0] == status


def test_a_rank_that_stays_after_the_first_has_stopped_is_killed(lead, monkeypatch):
    monkeypatch.setattr(launcher, "LEAVE_SECONDS", 0.2)
    code = "__import__('signal').signal(15, 1) if rank == '1' else None; "
    code += "sys.exit(75) if rank == '0' else time.sleep(600)"
    assert lead(code)[0] == EXIT_STOPPED


def test_a_stop_is_passed_on_to_all_ranks(lead):
    stop = StopSignal()
    code = "__import__('signal').signal(15, lambda *_: os._exit(75)); "
    code += "os.kill(os.getppid(), 15) if rank == '0' else None; time.sleep(600)"
    before = signal.getsignal(signal.SIGTERM)
    stop.install()
    try:
        assert lead(code, stop=stop)[0] == EXIT_STOPPED
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_failure_of_another_rank_is_written_to_the_events(lead):
    code = (
        "folder = sys.argv[1] + '/ranks/failure-1.json'; "
        f"text = {FULL.model_dump_json()!r}; "
        "(open(folder, 'w').write(text), sys.exit(3)) if rank == '1' else time.sleep(600)"
    )
    status, told, _ = lead(code)
    assert status == EXIT_FAILED
    assert [event["kind"] for event in told] == ["failure"]
    assert told[0]["data"]["code"] == "out_of_memory"
    assert told[0]["data"]["details"]["rank"] == 1


def test_every_rank_holds_the_leases_of_the_gpus(lead, tmp_path, monkeypatch):
    with (tmp_path / "0000:03:00.0.lock").open("w") as lease:
        monkeypatch.setenv(LEASES_VARIABLE, str(lease.fileno()))
        code = f"sys.exit(0 if os.readlink('/proc/self/fd/{lease.fileno()}') else 9)"
        assert lead(code)[0] == EXIT_DONE


def test_gpus_that_cannot_exchange_data_fail_the_job_with_advice(lead):
    status, told, _ = lead("sys.exit(0)", verdict=BROKEN)
    assert status == EXIT_FAILED
    (failure,) = [event["data"] for event in told]
    assert failure["code"] == "gpu_links"
    assert failure["details"]["doctor_row"] == 21
    assert "iommu=pt" in failure["message"]
    assert "a hang" in failure["message"]


def test_such_a_job_continues_on_one_gpu_if_its_spec_allows_it(lead):
    code = "sys.exit(0 if os.environ.get('WORLD_SIZE') == '1' else 9)"
    status, told, job_dir = lead(code, verdict=BROKEN, resources={"gpus": 2, "allow_fewer": True})
    assert status == EXIT_DONE
    assert [event["data"]["code"] for event in told] == ["fewer_gpus"]
    assert json.loads(job_dir.order_path.read_text())["num_ranks"] == 1


def test_gpus_that_exchange_data_only_through_memory_give_a_warning(lead):
    slow = verdict_of(has_passed=True, environment={"NCCL_P2P_DISABLE": "1"}, problem="a hang")
    status, told, _ = lead("sys.exit(0 if os.environ['NCCL_P2P_DISABLE'] else 9)", verdict=slow)
    assert status == EXIT_DONE
    assert [event["data"]["code"] for event in told] == ["peer_transfers_off"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_the_leader_dies_by_the_signal_that_a_rank_died_by(number):
    code = "from worker.trainer.ranks.launcher import die_as; import sys; sys.exit(die_as(-{}))"
    command = [sys.executable, "-c", code.format(int(number))]
    done = subprocess.run(command, check=False, timeout=60)
    assert done.returncode == -number
