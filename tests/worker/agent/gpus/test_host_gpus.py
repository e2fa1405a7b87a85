import pytest

from redkiln.views.hardware import GpuFacts
from redkiln.views.worker import GpuView
from worker.agent.gpus.host_gpus import join_gpus, show_gpus

CARD = GpuFacts(node=1, gfx="gfx1100", pci_address="0000:03:00.0", uuid="GPU-00000000000000a1",
                is_apu=False)  # fmt: skip
TWIN = GpuFacts(node=2, gfx="gfx1100", pci_address="0000:43:00.0", is_apu=False)
APU = GpuFacts(node=3, gfx="gfx1103", pci_address="0000:c1:00.0", is_apu=True)


def view(index, pci_address=None, arch="gfx1100"):
    return GpuView(index=index, name="a card", arch=arch, pci_address=pci_address, memory_bytes=8)


def join(views, facts, *, wanted="auto", is_hip=True, environ=None):
    return join_gpus(views, facts, wanted=wanted, is_hip=is_hip, environ=environ or {})


def test_torchs_and_the_drivers_gpus_are_joined_by_pci_address():
    first, second = join([view(0, "0000:43:00.0"), view(1, "0000:03:00.0")], [CARD, TWIN])
    assert (first.key, first.facts) == ("0000:43:00.0", TWIN)
    assert (second.key, second.facts) == ("0000:03:00.0", CARD)
    assert not first.excluded
    assert first.mask == {"ROCR_VISIBLE_DEVICES": "0"}
    assert second.mask == {"ROCR_VISIBLE_DEVICES": CARD.uuid}
    assert show_gpus([first, second]) == {"ROCR_VISIBLE_DEVICES": f"0,{CARD.uuid}"}


def test_a_cuda_build_keeps_its_own_variable_and_needs_no_facts():
    (gpu,) = join([view(0, "0000:18:00.0", "sm_90")], [], is_hip=False)
    assert gpu.key == "0000:18:00.0"
    assert gpu.mask == {"CUDA_VISIBLE_DEVICES": "0"}
    assert (gpu.arch, gpu.facts.gfx, gpu.facts.vram_bytes) == ("sm_90", None, 8)


def test_without_a_pci_address_a_gpu_is_named_by_its_index():
    one, two = join([view(0), view(1)], [])
    assert (one.key, two.key) == ("gpu-0", "gpu-1")


def test_partitions_of_one_card_are_joined_in_their_order():
    parts = [TWIN.model_copy(update={"node": 2 + n, "partition": n}) for n in range(2)]
    one, two = join([view(0, "0000:43:00.0"), view(1, "0000:43:00.0")], parts)
    assert (one.key, two.key) == ("0000:43:00.0-p0", "0000:43:00.0-p1")


@pytest.mark.parametrize(
    ("views", "facts", "wanted", "codes"),
    [
        ([], [CARD], "auto", ["not_in_torch"]),
        ([view(0, "0000:c1:00.0")], [CARD, APU], "auto", [None, "not_in_torch"]),
        (
            [view(0, "0000:03:00.0"), view(1, "0000:c1:00.0")],
            [CARD, APU],
            "auto",
            [None, "apu_beside_discrete"],
        ),
        ([view(0, "0000:03:00.0"), view(1, "0000:c1:00.0")], [CARD, APU], "all", [None, None]),
        (
            [view(0, "0000:03:00.0")],
            [CARD, TWIN.model_copy(update={"is_accessible": False})],
            "auto",
            [None, "inaccessible"],
        ),
        ([view(0, "0000:03:00.0")], [CARD], "0000:99:00.0", ["not_wanted"]),
    ],
)
def test_each_excluded_gpu_has_a_reason(views, facts, wanted, codes):
    gpus = join(views, facts, wanted=wanted)
    assert [gpu.excluded and gpu.excluded.code for gpu in gpus] == codes
