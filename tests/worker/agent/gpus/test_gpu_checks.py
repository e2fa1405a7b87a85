import os
import sys
import threading
from pathlib import Path

from redkiln.views.hardware import GpuFacts
from worker.agent.children.children import Spawner
from worker.agent.gpus import gpu_checks
from worker.agent.gpus.gpu_checks import QUIET_SECONDS, GpuChecks, SelfTest, TimeLimit
from worker.agent.gpus.host_gpus import HostGpu
from worker.agent.gpus.pool import GpuPool
from worker.hardware.leases import LeaseFolder

KEY = "0000:03:00.0"
HERE = Path(__file__).parents[1]


def test_a_gpu_is_tested_under_its_lease_and_is_free_when_the_change_is_reported(
    settings, tmp_path
):
    verdict = tmp_path / "verdict"
    verdict.write_text("passed")
    command = [sys.executable, str(HERE / "fake_selftest.py"), str(verdict)]
    settings = settings.model_copy(update={"selftest_command": command})
    settings.prepare_dirs()
    pool = GpuPool([HostGpu(KEY, GpuFacts(pci_address=KEY))], settings, worker_id="wrk_1")
    others, was_leased, could_take = LeaseFolder(settings.lock_dir), [], []
    kernels, announced = tmp_path / "kernels", []
    kernels.mkdir()
    (kernels / "gfx1100_48.ukdb").touch()

    def environment():
        was_leased.append(others.take([KEY]) is None)
        announced.append(why.message if (why := pool.find_exclusion(KEY)) else "")
        return {"MIOPEN_USER_DB_PATH": str(kernels)}

    test = SelfTest(settings, Spawner(), HERE.parents[2], environment)
    tell = lambda: could_take.append(pool.take(KEY) is not None)  # noqa: E731
    checks = GpuChecks(pool, {KEY: test}, on_change=tell)
    (running,) = others.take([KEY])
    checks.look()
    assert pool.find_exclusion(KEY).code == "self_test_running"
    assert not was_leased
    running.close()
    checks.look()
    assert was_leased
    assert all(was_leased)
    assert could_take == [True]
    # The worker reports this to the service while the test runs.
    assert "1 file of kernels exists" in announced[-1]
    assert "15 minutes, and after 60 minutes at the latest" in announced[-1]
    others.close()
    pool.close()


def test_a_self_test_may_run_longer_while_it_compiles_kernels(tmp_path):
    folder = tmp_path / "miopen"
    limit = TimeLimit([folder])
    folder.mkdir()
    for number in range(3):
        assert not limit.is_over(QUIET_SECONDS - 1)
        (folder / f"{number}.ukdb").touch()
        assert not limit.is_over(1)
    assert not limit.is_over(QUIET_SECONDS - 1)
    assert limit.is_over(1)
    assert limit.describe().startswith("it did not finish within 3600 s")


def test_a_self_test_that_compiles_for_ever_is_ended(tmp_path):
    limit = TimeLimit([tmp_path])
    over = []
    for number in range(4):
        (tmp_path / f"{number}.ukdb").touch()
        over.append(limit.is_over(QUIET_SECONDS))
    assert over == [False, False, False, True]


def test_a_self_test_that_hangs_is_ended_with_its_cause(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_checks, "ROUND_SECONDS", 0.05)
    monkeypatch.setattr(gpu_checks, "QUIET_SECONDS", 0.1)
    hangs = [sys.executable, "-c", "import time; time.sleep(60)"]
    settings = settings.model_copy(update={"selftest_command": hangs})
    settings.prepare_dirs()
    folder = LeaseFolder(settings.lock_dir)
    (lease,) = folder.take([KEY])
    test = SelfTest(settings, Spawner(), HERE.parents[2], lambda: dict(os.environ))
    report = test.run(lease, again=False, stopping=threading.Event())
    assert report.status == "error"
    assert "did not finish" in report.cause
    lease.close()
    folder.close()


def test_a_death_in_fused_attention_restricts_the_gpu(settings, tmp_path):
    said = tmp_path / "verdict"
    said.write_text("dies-in-attention")
    command = [sys.executable, str(HERE / "fake_selftest.py"), str(said)]
    settings = settings.model_copy(update={"selftest_command": command})
    settings.prepare_dirs()
    folder = LeaseFolder(settings.lock_dir)
    (lease,) = folder.take([KEY])
    test = SelfTest(settings, Spawner(), HERE.parents[2], lambda: dict(os.environ))
    verdict = test.judge(lease, again=False, stopping=threading.Event())
    assert (verdict.action, verdict.has_plain_attention) == ("restrict", True)
    assert "Memory access fault" in verdict.reason
    lease.close()
    folder.close()
