"""What becomes of each patch on real machines, as far as their files were captured."""

from pathlib import Path

import pytest

from worker.hardware.facts.discover import discover_gpus
from worker.hardware.patches import PATCHES, decide_all, merge_environment
from worker.hardware.patches.facts import PatchFacts

CAPTURES = Path(__file__).parents[5] / "shared" / "captures" / "kfd"
TREES = sorted(path for path in CAPTURES.glob("*") if path.name != "singles")

pytestmark = pytest.mark.skipif(
    not TREES, reason="the captures of real machines are not next to this checkout"
)


def decide(tree, *, torch, rocm, arch_list):
    gpus = discover_gpus(topology_dir=tree, drm_dir=tree)
    facts = PatchFacts("rocm", tuple(gpus), torch=torch, rocm=rocm, arch_list=arch_list)
    return gpus, decide_all(facts)


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
@pytest.mark.parametrize("torch", ["2.9.1", "2.13.0"])
def test_every_patch_decides_on_every_captured_machine(tree, torch):
    gpus, outcomes = decide(tree, torch=torch, rocm="7.2.1", arch_list=("gfx1030", "gfx1100"))
    assert gpus
    assert len(outcomes) == len(PATCHES)
    assert all(outcome.why for outcome in outcomes)
    # Without a proof nothing is overridden anywhere.
    assert not any(name.startswith("HSA_OVERRIDE") for name in merge_environment(outcomes))


@pytest.mark.parametrize(
    ("name", "applied"),
    [
        ("mi210-8gpu-xgmi-k8s", {"kernel_arguments", "channels_last", "precision"}),
        ("lact-rx7900xtx", {"precision", "miopen_log"}),
    ],
)
def test_the_applied_patches_follow_from_a_machines_files(name, applied):
    _, outcomes = decide(CAPTURES / name, torch="2.13.0", rocm="10.0.1", arch_list=("gfx1100",))
    found = {outcome.name for outcome in outcomes if outcome.outcome == "applied"}
    assert applied <= found
    assert ("kernel_arguments" in found) is ("mi210" in name)
