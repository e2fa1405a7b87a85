"""When a GPU is shown to ROCm as another one."""

import pytest

from tests.worker.hardware.patches.cases import (
    CLASSIC,
    FAILED,
    PASSED,
    THEROCK,
    WHEELS,
    facts_of,
    gpu,
    outcome,
)
from worker.hardware.patches.gfx_override import find_candidate


@pytest.mark.parametrize(
    ("gfx", "versions", "arch_list", "probe", "wanted", "word"),
    [
        # The table's rule, and a child that proved it.
        ("gfx1031", CLASSIC, WHEELS, PASSED, "applied", "10.3.0"),
        ("gfx1032", CLASSIC, WHEELS, PASSED, "applied", "10.3.0"),
        ("gfx1036", CLASSIC, WHEELS, PASSED, "applied", "10.3.0"),
        ("gfx1102", CLASSIC, WHEELS, PASSED, "applied", "11.0.0"),
        ("gfx90c", CLASSIC, WHEELS, PASSED, "applied", "9.0.0"),
        # A rule and no proof.
        ("gfx1031", CLASSIC, WHEELS, None, "refused", "has not passed its probe"),
        ("gfx1031", CLASSIC, WHEELS, FAILED, "refused", "signal 6"),
        # ROCm's wheels by architecture: only with proof, and with the better remedy.
        ("gfx1031", THEROCK, ("gfx1030",), None, "refused", "torch[device-gfx1031]"),
        ("gfx1031", THEROCK, ("gfx1030",), PASSED, "applied", "10.3.0"),
        # Without wheels for this target: those of the other target, unless torch has them already.
        ("gfx90c", THEROCK, ("gfx1030",), None, "refused", 'install "torch[device-gfx900]"'),
        ("gfx90c", THEROCK, ("gfx900",), None, "refused", "has not passed its probe on this GPU"),
        ("gfx1013", CLASSIC, WHEELS, None, "refused", "ROCm 10, which have kernels for gfx1010"),
        # Supported as they are.
        ("gfx1030", CLASSIC, WHEELS, PASSED, "refused", "torch has kernels for gfx1030"),
        ("gfx1100", CLASSIC, WHEELS, PASSED, "refused", "torch has kernels for gfx1100"),
        ("gfx1031", THEROCK, ("gfx1031",), PASSED, "refused", "torch has kernels for gfx1031"),
        ("gfx942", CLASSIC, WHEELS, PASSED, "refused", "torch has kernels for gfx942"),
        # No rule, or no kernels to use instead.
        ("gfx1010", CLASSIC, WHEELS, PASSED, "refused", "never 10.3.0"),
        ("gfx1012", CLASSIC, WHEELS, PASSED, "refused", "nor for its substitute gfx1010"),
        ("gfx1151", CLASSIC, WHEELS, PASSED, "refused", "gfx1151"),
        ("gfx803", CLASSIC, WHEELS, PASSED, "refused", "gfx803"),
        ("gfx1031", CLASSIC, ("gfx1100",), PASSED, "refused", "nor for its substitute gfx1030"),
        ("gfx9999", CLASSIC, WHEELS, PASSED, "refused", "not in the table"),
        ("gfx1031", CLASSIC, (), PASSED, "skipped", "does not report"),
    ],
)
def test_an_override_needs_a_rule_and_a_passed_probe(gfx, versions, arch_list, probe, wanted, word):
    probes = {gfx: probe} if probe else {}
    facts = facts_of(gfx, versions=versions, arch_list=arch_list, probes=probes)
    found = outcome(facts, "gfx_override")
    assert found.outcome == wanted
    assert word in found.why + str(found.environment)
    assert bool(found.environment) is (wanted == "applied")
    assert "HSA_OVERRIDE_GFX_VERSION" not in found.environment


def test_a_failed_probe_is_not_answered_with_wheels_that_are_installed():
    facts = facts_of("gfx90c", versions=THEROCK, arch_list=("gfx900",), probes={"gfx90c": FAILED})
    assert "install" not in outcome(facts, "gfx_override").why


def test_each_gpu_is_overridden_by_its_own_node():
    gpus = (gpu("gfx1031", node=2), gpu("gfx1031", node=3))
    found = outcome(facts_of("", gpus=gpus, probes={"gfx1031": PASSED}), "gfx_override")
    assert found.environment == {
        "HSA_OVERRIDE_GFX_VERSION_2": "10.3.0",
        "HSA_OVERRIDE_GFX_VERSION_3": "10.3.0",
    }


def test_without_a_node_nothing_can_be_overridden():
    facts = facts_of("", gpus=(gpu("gfx1031", node=None),), probes={"gfx1031": PASSED})
    assert "no KFD node" in outcome(facts, "gfx_override").why
    assert find_candidate(facts.gpus[0], facts) is None


def test_only_permitted_overrides_are_probed():
    facts = facts_of("gfx1031")
    assert find_candidate(facts.gpus[0], facts) == {"HSA_OVERRIDE_GFX_VERSION_1": "10.3.0"}
    supported = facts_of("gfx1100")
    assert find_candidate(supported.gpus[0], supported) is None
