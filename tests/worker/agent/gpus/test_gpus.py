"""A real agent on made machines: which GPUs its jobs get, wait for, and lose."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from redkiln.failure import FailureCode
from tests.waiting import wait_for
from tests.worker.hardware.trees import (
    GIB,
    MI300X,
    RAPHAEL,
    RX_7900_XTX,
    put,
    row_of,
    write_machine,
)
from worker.hardware.health.verdicts import AVOID_HIPBLASLT
from worker.hardware.leases import LeaseFolder

FAKE_SELFTEST = str(Path(__file__).parents[1] / "fake_selftest.py")
FAULT = "say:Memory access fault by GPU node-1 on address 0x7f: Page not present"


@pytest.fixture(autouse=True)
def quick_checks(monkeypatch):
    for name in ("MEMORY_CHECK_SECONDS", "TEST_CHECK_SECONDS"):
        monkeypatch.setattr(f"worker.hardware.health.health.{name}", 0.0)
    monkeypatch.setattr("worker.agent.gpus.gpu_checks.ROUND_SECONDS", 0.05)
    monkeypatch.setattr("worker.agent.gpus.pool.GIVE_BACK_SECONDS", 0.2)
    monkeypatch.setattr("worker.agent.gpus.pool.LOOK_SECONDS", 0.05)
    monkeypatch.setattr("worker.agent.agent.BUSY_SECONDS", 0.1)


class Bench:
    """A made machine with an agent on it."""

    def __init__(self, root, gpus, start_agent, settings, **options):
        self.machine = write_machine(root, gpus, **options)
        self.settings = settings
        self._start = start_agent
        self.agent = None

    def start(self, **changes):
        self.agent = self._start(
            topology_dir=self.machine.topology_dir, drm_dir=self.machine.drm_dir, **changes
        )
        return self.agent

    def start_and_be_known(self):
        """Until the service's welcome has arrived: before it the agent asks for no job."""
        agent = self.start()
        wait_for((self.settings.worker_dir / "ready").exists)
        return agent

    def use_memory(self, card, gib):
        used = self.machine.device_dir(card) / "mem_info_vram_used"
        put(used, f"{int(gib * GIB)}\n")
        return used

    def exclusions(self):
        return {
            state.key: state.excluded.code for state in self.agent.gpu_states() if state.excluded
        }


@pytest.fixture
def make_bench(tmp_path, start_agent, settings, show_gpus):
    def make(gpus, *, arch="gfx1100", **options):
        show_gpus(gpus, arch=arch)
        return Bench(tmp_path / "machine", gpus, start_agent, settings, **options)

    return make


def messages(service, attempt_id):
    return [e.data["text"] for e in service.events.get(attempt_id, []) if e.kind == "message"]


def line(service, attempt_id, start):
    log = service.log[attempt_id].decode().splitlines()
    return next(text.removeprefix(f"{start} ") for text in log if text.startswith(start))


def test_two_jobs_at_a_time_each_see_and_hold_their_own_gpu(service, make_bench):
    cards = row_of(RX_7900_XTX, 2)
    bench = make_bench(cards)
    attempts = [service.add_job(steps=50, step_seconds=0.02) for _ in cards]
    agent = bench.start()
    service.wait_for(lambda: all("progress" in service.kinds(each) for each in attempts))
    held = {state.attempt_id: state.key for state in agent.gpu_states()}
    assert set(held) == set(attempts)
    for attempt_id in attempts:
        service.wait_for_finish(attempt_id)
        card = next(card for card in cards if card.pci_address == held[attempt_id])
        masks = line(service, attempt_id, "masks")
        assert masks == f"{{'ROCR_VISIBLE_DEVICES': '{card.uuid}'}} gpus=1 limit=None"
        assert line(service, attempt_id, "leases") == f"['{card.pci_address}']"
        assert b"warm=True" in service.log[attempt_id]


def test_a_gpu_is_free_again_while_its_job_is_exported(service, make_bench):
    (card,) = row_of(RX_7900_XTX, 1)
    attempt_id = service.add_job(steps=3, export_seconds=60)
    bench = make_bench([card])
    agent = bench.start()
    service.wait_for(
        lambda: any(e.data.get("phase") == "exporting" for e in service.events.get(attempt_id, []))
    )
    assert [state.attempt_id for state in agent.gpu_states()] == [None]
    folder = LeaseFolder(bench.settings.lock_dir)
    assert folder.take([card.pci_address])
    folder.close()
    service.cancelled.add(attempt_id)
    service.wait_for_finish(attempt_id)


def test_no_job_is_claimed_while_another_worker_holds_the_gpu(service, make_bench):
    bench = make_bench([RX_7900_XTX])
    folder = LeaseFolder(bench.settings.lock_dir)
    (lease,) = folder.take([RX_7900_XTX.pci_address])
    attempt_id = service.add_job(steps=3)
    agent = bench.start_and_be_known()
    assert agent.answer("job_1") is False
    assert not service.claims
    lease.close()
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
    folder.close()


def test_a_job_on_several_gpus_gets_the_best_connected_ones(service, make_bench):
    first, *others = [
        replace(card, hive_id=1 + number // 2) for number, card in enumerate(row_of(MI300X, 4))
    ]
    attempt_id = service.add_job(steps=5, resources={"gpus": 2, "device": "gpu"})
    bench = make_bench([first, *others], arch="gfx942", has_xgmi=True)
    bench.start()
    service.wait_for_finish(attempt_id)
    pair = f"{first.uuid},{others[0].uuid}"
    assert f"'{pair}'}} gpus=2" in line(service, attempt_id, "masks")
    expected = [f"renderD{first.render_minor}", f"renderD{others[0].render_minor}"]
    assert json.loads(line(service, attempt_id, "leases").replace("'", '"')) == expected
    said = messages(service, attempt_id)
    assert "from 4 free GPUs, because they are closest to each other: xGMI joins them" in said[0]
    assert "the trainer starts cold: the job uses several GPUs" in said
    assert service.claims[-1].arches
    assert service.claims[0].arches == ["gfx942"] * 4


def test_a_job_waits_while_other_programs_hold_the_memory_and_reports_it(service, make_bench):
    bench = make_bench([RX_7900_XTX])
    bench.use_memory(0, 9.1)
    attempt_id = service.add_job(steps=3)
    bench.start()
    service.wait_for(lambda: messages(service, attempt_id))
    key = RX_7900_XTX.pci_address
    assert "9.1 GiB of 24.0 GiB are in use" in messages(service, attempt_id)[0]
    phases = [e.data for e in service.events[attempt_id] if e.kind == "phase"]
    assert f"waiting for the memory of GPU {key}" in phases[-1]["text"]
    bench.use_memory(0, 0.3)
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
    assert f"the memory of GPU {key} is free now" in messages(service, attempt_id)


def test_after_too_long_a_wait_the_job_is_released_and_the_gpu_excluded(service, make_bench):
    bench = make_bench([RX_7900_XTX])
    bench.use_memory(0, 20)
    attempt_id = service.add_job(steps=3)
    bench.start(gpu_wait_seconds=0.2)
    finish = service.wait_for_finish(attempt_id)
    assert (finish.outcome, finish.failure.code) == ("released", FailureCode.GPU_BUSY)
    assert "20.0 GiB of 24.0 GiB are in use" in finish.failure.message
    assert bench.exclusions() == {RX_7900_XTX.pci_address: "memory_held"}
    again = service.add_job(steps=3)
    bench.use_memory(0, 0.3)
    assert service.wait_for_finish(again).outcome == "succeeded"
    assert not bench.exclusions()


def test_a_gpu_that_keeps_a_dead_jobs_memory_is_excluded_until_it_is_freed(service, make_bench):
    bench = make_bench([RX_7900_XTX])
    used = str(bench.use_memory(0, 0.3))
    attempt_id = service.add_job(steps=3, leave={used: f"{12 * GIB}\n"})
    bench.start()
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
    (state,) = bench.agent.gpu_states()
    assert (
        "12.0 GiB of 24.0 GiB are in use after a job; before it, 0.3 GiB were"
        in state.excluded.message
    )
    waiting = service.add_job(steps=3)
    bench.use_memory(0, 0.3)
    assert service.wait_for_finish(waiting).outcome == "succeeded"


def test_a_desktops_card_keeps_some_memory_free(service, make_bench):
    bench = make_bench([replace(RX_7900_XTX, has_screen=True)])
    bench.use_memory(0, 2)
    attempt_id = service.add_job(steps=3)
    bench.start()
    service.wait_for_finish(attempt_id)
    assert f"limit={21 * GIB}" in line(service, attempt_id, "masks")
    assert line(service, attempt_id, "tunables") == "None"
    assert any("because it drives a screen" in text for text in messages(service, attempt_id))


@pytest.fixture
def verdict(tmp_path):
    path = tmp_path / "verdict"
    path.write_text("passed")
    return path


def calls_of(verdict):
    calls = verdict.with_suffix(".calls")
    return [json.loads(text) for text in calls.read_text().splitlines()] if calls.exists() else []


def start_with(bench, verdict):
    return bench.start(selftest_command=[sys.executable, FAKE_SELFTEST, str(verdict)])


def test_a_faulty_gpu_is_excluded_until_it_passes_its_self_test(service, make_bench, verdict):
    bench = make_bench([RX_7900_XTX])
    start_with(bench, verdict)
    service.wait_for(lambda: calls_of(verdict) and not bench.exclusions())
    verdict.write_text("failed")
    attempt_id = service.add_job(steps=10, die_at=7, how=FAULT)
    assert service.wait_for_finish(attempt_id).failure.code == FailureCode.GPU_FAULT
    key = RX_7900_XTX.pci_address
    service.wait_for(lambda: bench.exclusions() == {key: "self_test_failed"})
    (state,) = bench.agent.gpu_states()
    assert (
        "gemm tall skinny in fp32 by rocblas, 8x8: error 0.93, allowed 0.01"
        in state.excluded.message
    )
    waiting = service.add_job(steps=3)
    service.wait_for(lambda: len(calls_of(verdict)) >= 4)
    assert not service.events.get(waiting)
    verdict.write_text("passed")
    assert service.wait_for_finish(waiting).outcome == "succeeded"
    first, *again = calls_of(verdict)
    assert first["masks"] == {"ROCR_VISIBLE_DEVICES": RX_7900_XTX.uuid}
    assert "--again" not in first["asked"]
    assert all("--again" in call["asked"] for call in again)


def test_a_gpu_without_a_self_test_is_not_excluded_for_ever(service, make_bench):
    bench = make_bench([RX_7900_XTX])
    bench.start()
    faulted = service.add_job(steps=10, die_at=7, how=FAULT)
    assert service.wait_for_finish(faulted).failure.code == FailureCode.GPU_FAULT
    assert service.wait_for_finish(service.add_job(steps=3)).outcome == "succeeded"
    assert not bench.exclusions()


def test_a_self_test_that_dies_excludes_the_gpu_and_shows_its_output(service, make_bench, verdict):
    verdict.write_text("dies")
    bench = make_bench([RX_7900_XTX])
    start_with(bench, verdict)
    service.wait_for(lambda: "self_test_error" in bench.exclusions().values())
    (state,) = bench.agent.gpu_states()
    assert "status -11; last output: testing gemm fp32" in state.excluded.message
    assert not service.claims


def test_a_gpu_that_is_wrong_in_one_type_trains_with_the_others(service, make_bench, verdict):
    verdict.write_text("fp16")
    bench = make_bench([RX_7900_XTX])
    start_with(bench, verdict)
    attempt_id = service.add_job(steps=3)
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
    (denied,) = json.loads(line(service, attempt_id, "denied")).items()
    assert denied[0] == "fp16"
    assert "error 0.93, allowed 0.01" in denied[1]


def test_a_wrong_library_excludes_a_gpu_until_it_is_avoided(
    service, make_bench, verdict, monkeypatch
):
    verdict.write_text("hipblaslt")
    bench = make_bench([RX_7900_XTX])
    first = start_with(bench, verdict)
    service.wait_for(lambda: "self_test_failed" in bench.exclusions().values())
    (state,) = bench.agent.gpu_states()
    assert "set TORCH_BLAS_PREFER_HIPBLASLT=0 DISABLE_ADDMM_CUDA_LT=1" in state.excluded.message
    first.ask_to_stop()
    first.join()
    for name, value in AVOID_HIPBLASLT.items():
        monkeypatch.setenv(name, value)
    start_with(bench, verdict)
    attempt_id = service.add_job(steps=3)
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"


def test_a_tested_gpu_is_not_tested_again_by_the_next_worker(service, make_bench, verdict):
    bench = make_bench([RX_7900_XTX])
    first = start_with(bench, verdict)
    service.wait_for(lambda: not bench.exclusions())
    first.ask_to_stop()
    first.join()
    start_with(bench, verdict)
    service.wait_for(lambda: len(service.hellos) == 2)
    attempt_id = service.add_job(steps=3)
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
    assert len(calls_of(verdict)) == 1


def test_a_worker_whose_gpus_are_all_excluded_runs_on_its_cpu(service, make_bench):
    bench = make_bench([RX_7900_XTX, RAPHAEL])
    attempt_id = service.add_job(steps=3)
    bench.start(gpus="0000:99:00.0")
    service.wait_for_finish(attempt_id)
    assert set(bench.exclusions().values()) == {"not_wanted"}
    assert service.claims[0].devices == ["cpu"]
    assert "'HIP_VISIBLE_DEVICES': '-1'" in line(service, attempt_id, "masks")
    assert "hugetlb=1" in line(service, attempt_id, "tunables")
    assert line(service, attempt_id, "leases") == "[]"


def test_a_lock_that_cannot_be_opened_temporarily_does_not_lose_the_slot(
    service, make_bench, settings
):
    lock = settings.lock_dir / f"{RX_7900_XTX.pci_address}.lock"
    lock.mkdir(parents=True)
    agent = make_bench([RX_7900_XTX]).start_and_be_known()
    assert agent.answer(None) is False
    lock.rmdir()
    assert service.wait_for_finish(service.add_job(steps=3)).outcome == "succeeded"
