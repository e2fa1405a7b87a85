from pathlib import Path

import pytest

from redkiln.views.hardware import GpuFacts, GpuLink
from worker.hardware.choose import choose_gpus, find_exclusions, gpu_key
from worker.hardware.facts.discover import discover_gpus

CAPTURES = Path(__file__).parents[4] / "shared" / "captures" / "kfd"


def gpu(number, **facts):
    given = {"node": number, "gfx": "gfx1100", "pci_address": f"0000:{number:02x}:00.0", **facts}
    return GpuFacts(**given)


CARD = gpu(3, is_apu=False, uuid="GPU-00000000000000ab")
OTHER = gpu(4, is_apu=False)
APU = gpu(9, gfx="gfx1103", is_apu=True)
DECK = gpu(9, gfx="gfx1033", is_apu=True)
HIDDEN = gpu(5, is_accessible=False, render_minor=129)
UNKNOWN = gpu(6, gfx=None)
CARD_ALONE = gpu(5, node=None, is_accessible=False)


@pytest.mark.parametrize(
    ("gpus", "wanted", "excluded"),
    [
        ([], "auto", {}),
        ([CARD], "auto", {}),
        ([APU], "auto", {}),
        ([CARD, APU], "auto", {9: "apu_beside_discrete"}),
        ([CARD, APU], "all", {}),
        ([CARD, APU], "", {9: "apu_beside_discrete"}),
        ([CARD, APU], "0000:09:00.0", {3: "not_wanted"}),
        ([CARD, OTHER, APU], "0000:04:00.0, gpu-00000000000000AB", {9: "not_wanted"}),
        ([HIDDEN, APU], "auto", {5: "inaccessible"}),
        ([HIDDEN, APU], "all", {5: "inaccessible"}),
        ([CARD_ALONE], "auto", {5: "not_offered"}),
        ([UNKNOWN, APU], "auto", {9: "apu_beside_discrete"}),
        ([DECK], "all", {9: "trains_wrong"}),
        ([DECK], "0000:09:00.0", {9: "trains_wrong"}),
        ([DECK, CARD], "auto", {9: "trains_wrong"}),
    ],
)
def test_a_gpu_is_excluded_for_a_reason(gpus, wanted, excluded):
    found = find_exclusions(gpus, wanted=wanted)
    expected = {f"0000:{number:02x}:00.0": code for number, code in excluded.items()}
    assert {key: why.code for key, why in found.items()} == expected


def test_a_reason_says_what_to_do():
    found = find_exclusions([CARD, APU, HIDDEN, DECK.model_copy(update={"pci_address": "d"})],
                            wanted="auto")  # fmt: skip
    assert "/dev/dri/renderD129" in found["0000:05:00.0"].message
    assert "REDKILN_GPUS" in found["0000:09:00.0"].message
    assert "gfx1033" in found["d"].message


def test_partitions_of_one_card_have_separate_keys():
    assert gpu_key(CARD) == "0000:03:00.0"
    assert gpu_key(gpu(3, partition=1)) == "0000:03:00.0-p1"
    assert gpu_key(GpuFacts(node=2)) == "node-2"


def link(to, kind, hops=1):
    return GpuLink(to_node=to, to_pci_address=f"0000:{to:02x}:00.0", kind=kind, hops=hops)


def to_cpu(node):
    return GpuLink(to_node=node, kind="pcie", hops=1)


def by_key(gpus):
    return {gpu_key(each): each for each in gpus}


def ring(*numbers):
    """xGMI from each to the next; the others further round."""
    size = len(numbers)
    for place, number in enumerate(numbers):
        steps = {numbers[(place + step) % size]: min(step, size - step) for step in range(1, size)}
        yield gpu(number, links=[link(to, "xgmi", hops) for to, hops in steps.items()])


def on_cpu(cpu, *numbers):
    return [gpu(number, links=[to_cpu(cpu)]) for number in numbers]


@pytest.mark.parametrize(
    ("candidates", "count", "chosen", "words"),
    [
        ([gpu(1)], 1, {1}, ""),
        ([gpu(1)], 2, None, ""),
        (list(ring(2, 3, 4, 5)), 2, {2, 3}, "xGMI joins them, at most 1 hop apart"),
        (list(ring(2, 5, 3, 4)), 2, {2, 5}, "xGMI joins them, at most 1 hop apart"),
        (list(ring(2, 3, 4, 5)), 3, {2, 3, 4}, "at most 2 hops"),
        ([gpu(1, links=[link(2, "pcie")]), gpu(2), *ring(6, 7)], 2, {6, 7}, "xGMI"),
        ([gpu(1), gpu(2, links=[link(4, "pcie")]), gpu(4)], 2, {2, 4}, "PCIe, at most 1 hop apart"),
        ([*on_cpu(0, 4, 5), *on_cpu(1, 6, 7)], 2, {4, 5}, "one CPU"),
        ([*on_cpu(0, 4), *on_cpu(1, 6, 7)], 2, {6, 7}, "one CPU"),
        ([gpu(1), gpu(2)], 2, {1, 2}, "avoids the host"),
    ],
)
def test_several_gpus_are_the_best_connected_ones(candidates, count, chosen, words):
    choice = choose_gpus(by_key(candidates), count)
    if chosen is None:
        assert choice is None
        return
    assert set(choice.keys) == {f"0000:{number:02x}:00.0" for number in chosen}
    assert words in choice.reason


def test_a_gpu_that_drives_a_screen_is_used_last():
    (key,) = choose_gpus(by_key([gpu(1), gpu(2)]), 1, with_display={"0000:01:00.0"}).keys
    assert key == "0000:02:00.0"
    (key,) = choose_gpus(by_key([gpu(1)]), 1, with_display={"0000:01:00.0"}).keys
    assert key == "0000:01:00.0"


@pytest.mark.skipif(not CAPTURES.exists(), reason="captures of real machines are not here")
def test_on_a_real_machine_four_of_eight_are_one_hive():
    gpus = discover_gpus(topology_dir=CAPTURES / "mi210-8gpu-xgmi-k8s", drm_dir=None)
    assert not find_exclusions(gpus, wanted="auto")
    choice = choose_gpus(by_key(gpus), 4)
    hives = {gpu.hive_id for gpu in gpus if gpu_key(gpu) in choice.keys}
    assert len(choice.keys) == 4
    assert len(hives) == 1
    assert "xGMI" in choice.reason
    assert "over PCIe, at most 3 hops apart" in choose_gpus(by_key(gpus), 5).reason
