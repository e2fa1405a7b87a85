import sys

import pytest

from redkiln.views.worker import GpuView
from worker.agent.children.children import Spawner
from worker.agent.gpus.host_gpus import join_gpus
from worker.agent.inventory import Inventory, InventoryFailed, ask_inventory, is_hip, plan_slots


def gpu(index, arch):
    return GpuView(index=index, name="a GPU", arch=arch)


def plan(inventory, **options):
    given = {"num_cores": 8, "wanted": None, "threads": None, **options}
    hip = is_hip(inventory)
    gpus = join_gpus(inventory.gpus, [], wanted="auto", is_hip=hip, environ={})
    return plan_slots(inventory, gpus, **given)


def test_a_host_without_a_gpu_has_one_slot_with_all_cores():
    (slot,) = plan(Inventory())
    assert (slot.kind, slot.device, slot.threads, slot.gpu) == ("cpu", "cpu", 8, None)


def test_each_gpu_is_a_slot_that_sees_only_itself():
    slots = plan(Inventory(gpus=[gpu(0, "gfx1100"), gpu(1, "gfx1201")], arch_list=["gfx1100"]))
    assert [slot.gpu.arch for slot in slots] == ["gfx1100", "gfx1201"]
    assert [dict(slot.device_environment) for slot in slots] == [
        {"ROCR_VISIBLE_DEVICES": "0"},
        {"ROCR_VISIBLE_DEVICES": "1"},
    ]
    assert {slot.device for slot in slots} == {"cuda:0"}
    assert {slot.threads for slot in slots} == {4}


def test_a_cuda_build_is_masked_by_its_own_variable():
    (slot,) = plan(Inventory(gpus=[gpu(0, "sm_90")], arch_list=["sm_90"]))
    assert dict(slot.device_environment) == {"CUDA_VISIBLE_DEVICES": "0"}


@pytest.mark.parametrize(
    ("num_gpus", "wanted", "num_slots"),
    [(0, None, 1), (0, 3, 3), (2, None, 2), (2, 1, 1), (2, 5, 2)],
)
def test_there_are_never_more_slots_than_gpus(num_gpus, wanted, num_slots):
    inventory = Inventory(gpus=[gpu(index, "gfx1100") for index in range(num_gpus)])
    assert len(plan(inventory, wanted=wanted)) == num_slots


def test_every_slot_has_a_thread_and_the_setting_takes_precedence():
    assert {slot.threads for slot in plan(Inventory(), num_cores=2, wanted=4)} == {1}
    assert {slot.threads for slot in plan(Inventory(), threads=5)} == {5}


@pytest.mark.parametrize(
    ("program", "words"),
    [("import sys; sys.exit('no torch')", "status 1"), ("print('hello')", "unreadable")],
)
def test_a_failed_inventory_reports_its_error(settings, tmp_path, program, words):
    broken = settings.model_copy(update={"inventory_command": [sys.executable, "-c", program]})
    with pytest.raises(InventoryFailed, match=words):
        ask_inventory(broken, Spawner(), source_dir=tmp_path)
