import sys
from pathlib import Path

from redkiln.views.hardware import GpuFacts
from worker.agent.children.children import Spawner
from worker.agent.gpus.gpu_checks import GpuChecks, SelfTest
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
    park = GpuPool([HostGpu(KEY, GpuFacts(pci_address=KEY))], settings, worker_id="wrk_1")
    others, was_leased, could_take = LeaseFolder(settings.lock_dir), [], []

    def environment():
        was_leased.append(others.take([KEY]) is None)
        return {}

    test = SelfTest(settings, Spawner(), HERE.parents[2], environment)
    tell = lambda: could_take.append(park.take(KEY) is not None)  # noqa: E731
    checks = GpuChecks(park, {KEY: test}, on_change=tell)
    (running,) = others.take([KEY])
    checks.look()
    assert park.find_exclusion(KEY).code == "self_test_running"
    assert not was_leased
    running.close()
    checks.look()
    assert was_leased
    assert all(was_leased)
    assert could_take == [True]
    others.close()
    park.close()
