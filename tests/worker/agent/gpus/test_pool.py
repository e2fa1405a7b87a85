import pytest

from redkiln.views.hardware import GpuExclusion, GpuFacts
from worker.agent.gpus.host_gpus import HostGpu
from worker.agent.gpus.pool import GpuAllocation, GpuPool
from worker.hardware.leases import LeaseFolder

KEY = "0000:03:00.0"
FAULTED = GpuExclusion(code="faulted", message="It faulted.")


@pytest.fixture
def pool(settings):
    pool = GpuPool([HostGpu(KEY, GpuFacts(pci_address=KEY))], settings, worker_id="wrk_1")
    yield pool
    pool.close()


class LateFolder(LeaseFolder):
    """Another worker takes the GPU out, and gives it back, just before it is locked here."""

    def __init__(self, root, *, before):
        super().__init__(root)
        self._before = before

    def take(self, keys):
        self._before()
        return super().take(keys)


def test_a_gpu_that_is_excluded_during_the_claim_is_not_leased(pool, settings):
    leases = pool._leases
    pool._leases = LateFolder(
        settings.lock_dir, before=lambda: pool.exclude(KEY, FAULTED, needs="self_test")
    )
    assert pool.take(KEY) is None
    pool._leases.close()
    pool._leases = leases
    pool.health.save(KEY, pool.health.load(KEY).readmit())
    assert pool.take(KEY) is not None  # nothing was left locked


def test_a_lock_that_cannot_be_opened_is_not_leased(pool, settings):
    lock = settings.lock_dir / f"{KEY}.lock"
    lock.mkdir()
    assert pool.take(KEY) is None
    lock.rmdir()
    assert pool.take(KEY) is not None


def test_a_lease_that_cannot_be_described_is_still_held(pool, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    lease = pool.take(KEY)
    pool.mark([lease], "att_1")
    assert pool.held == {KEY: "att_1"}
    assert pool.take(KEY) is None


def test_a_job_receives_the_sensor_folders_of_its_gpus(settings):
    known = HostGpu(KEY, GpuFacts(pci_address=KEY, card=2))
    unknown = HostGpu("gpu-1", GpuFacts())
    pool = GpuPool([known, unknown], settings, worker_id="wrk_1")
    allocation = GpuAllocation(pool, [known, unknown])
    assert allocation.sensor_dirs == [str(settings.drm_dir / "card2" / "device")]
    assert GpuAllocation().sensor_dirs == []
    pool.close()


def test_a_gpu_that_its_owner_wants_is_leased_by_nobody_else(pool, settings):
    assert pool.keep_free([KEY, "0000:99:00.0"])
    assert pool.find_exclusion(KEY).code == "kept_free"
    assert pool.take(KEY) is None
    other = GpuPool(list(pool.gpus.values()), settings, worker_id="wrk_2")
    assert other.take(KEY) is None
    assert not pool.keep_free([KEY])
    assert pool.keep_free([])
    lease = other.take(KEY)
    assert lease is not None
    lease.close()
    other.close()


def test_a_gpu_in_use_is_leased_for_its_owner_once_it_is_free(pool, settings):
    lease = pool.take(KEY)
    pool.mark([lease], "att_1")
    pool.keep_free([KEY])
    assert pool.find_attempt(KEY) == "att_1"
    lease.close()
    pool.unmark([KEY])
    pool.keep_free([KEY])
    other = GpuPool(list(pool.gpus.values()), settings, worker_id="wrk_2")
    assert other.take(KEY) is None
    other.close()
