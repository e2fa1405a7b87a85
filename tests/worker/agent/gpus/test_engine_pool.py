"""GPUs of another engine than torch, and the agents of a host that want them."""

import pytest

from worker.agent.gpus.engine_devices import ENGINE
from worker.agent.gpus.engine_pool import EnginePool
from worker.agent.inventory import Inventory, add_engines
from worker.hardware.facts.opencl import OpenclDevice
from worker.hardware.facts.vulkan import DisplayCard, VulkanDevice
from worker.hardware.leases import LeaseFolder, release

RADEON = VulkanDevice("RX 580", "DISCRETE_GPU", 0x1002, 0x67DF, "radv Mesa 25.2.0")
CARD = DisplayCard("0000:04:00.0", 0x1002, 0x67DF)
SOFTWARE = VulkanDevice("llvmpipe (LLVM 15)", "CPU", 0x10005, 0, "llvmpipe")
KEY = CARD.pci_address


@pytest.fixture
def one_gpu(monkeypatch):
    """Agents that start find tinygrad and one Vulkan GPU."""

    find_gpus(monkeypatch, vulkan=[(RADEON, CARD)])


def find_gpus(monkeypatch, *, vulkan=(), opencl=()):
    def add(inventory, settings, *, opens):
        with_package = inventory.model_copy(update={"packages": [ENGINE]})
        return add_engines(
            with_package, settings, opens=opens, find=lambda: vulkan, find_others=lambda: opencl
        )

    monkeypatch.setattr("worker.agent.parts.add_engines", add)


def test_only_gpus_that_are_used_are_leased_and_software_is_shared(settings):
    def keys(*pairs, has_packages=True):
        packages = [ENGINE] if has_packages else []
        found = add_engines(
            Inventory(packages=packages),
            settings.model_copy(update={"vulkan": "software"}),
            opens=lambda _: True,
            find=lambda: pairs,
            find_others=list,
        )
        assert "engine_places" not in found.model_dump(), "the service does not need them"
        return [key for place in found.engine_places for key in place.keys]

    assert keys((RADEON, CARD), (SOFTWARE, None), (None, CARD)) == [KEY]
    assert keys((RADEON, None)) == ["vulkan-RX-580"]
    assert keys((SOFTWARE, None)) == []
    assert keys((RADEON, CARD), has_packages=False) == []


def test_a_job_of_tinygrad_waits_while_another_worker_holds_the_gpu(
    service, start_agent, settings, one_gpu, tmp_path
):
    resources = {"engine": ENGINE}
    training = service.add_job(steps=10_000, step_seconds=0.01, resources=resources)
    waiting = service.add_job(steps=3, resources=resources)
    start_agent()
    service.wait_for(lambda: "progress" in service.kinds(training))
    folder = LeaseFolder(settings.lock_dir)
    assert folder.find_holder(KEY).attempt_id == training
    assert f"leases ['{KEY}']" in service.log[training].decode(), "its trainer holds the lease"

    start_agent(worker_dir=tmp_path / "other", slots=2)
    service.wait_for(lambda: service.claims[-1].busy == [ENGINE])
    assert waiting not in service.events
    service.cancelled.add(training)
    assert service.wait_for_finish(waiting).outcome == "succeeded"
    service.wait_for(lambda: folder.find_holder(KEY) is None)
    folder.close()


def test_two_jobs_train_on_two_gpus_and_other_workers_get_the_one_that_is_free(
    service, start_agent, settings, monkeypatch, tmp_path
):
    cards = [DisplayCard(f"0000:0{place}:00.0", 0x1002, 0x67DF) for place in (4, 5)]
    devices = [
        OpenclDevice(place, "RX 580", "GPU", 0x1002, "OpenCL 25.2", card.pci_address)
        for place, card in enumerate(cards)
    ]
    find_gpus(monkeypatch, opencl=list(zip(devices, cards, strict=True)))
    folder = LeaseFolder(settings.lock_dir)
    (first,) = folder.take([cards[0].pci_address])

    def add_job():
        resources = {"engine": ENGINE}
        return service.add_job(steps=10_000, step_seconds=0.01, resources=resources)

    def find_job_of(card):
        holder = folder.find_holder(card.pci_address)
        return holder and holder.attempt_id

    # Another program has the first GPU, so the job goes to the slot of the second.
    job = add_job()
    start_agent(slots=None)
    service.wait_for(lambda: "progress" in service.kinds(job))
    assert find_job_of(cards[1]) == job
    first.close()
    other = add_job()
    service.wait_for(lambda: "progress" in service.kinds(other))
    assert find_job_of(cards[0]) == other
    logs = [service.log[one].decode() for one in (job, other)]
    assert [log.count("opens CL:1") for log in logs] == [1, 0]
    assert [log.count("opens CL:0") for log in logs] == [0, 1]

    service.cancelled.update([job, other])
    service.wait_for_finish(job)
    service.wait_for_finish(other)
    folder.close()


def test_a_repeated_claim_gives_its_job_back_if_another_worker_has_the_gpu(
    service, start_agent, settings, one_gpu
):
    folder = LeaseFolder(settings.lock_dir)
    (lease,) = folder.take([KEY])
    service._needs_busy = lambda *_: False
    attempt_id = service.add_job(steps=3, resources={"engine": ENGINE})
    start_agent()
    finish = service.wait_for_finish(attempt_id)
    assert (finish.outcome, finish.failure.code) == ("released", "gpu_busy")
    assert "another tinygrad job uses" in finish.failure.message
    release([lease])
    folder.close()


def test_a_lock_that_cannot_be_opened_is_not_leased(settings):
    (settings.lock_dir / f"{KEY}.lock").mkdir(parents=True)
    pool = EnginePool(settings.lock_dir, worker_id="wrk_1")
    assert pool.take([KEY]) is None
    (settings.lock_dir / f"{KEY}.lock").rmdir()
    leases = pool.take([KEY])
    assert leases
    release(leases)
    pool.close()
