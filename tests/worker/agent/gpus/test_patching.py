import json
import sys
from datetime import UTC, datetime

import pytest

from redkiln.views.hardware import GpuFacts
from redkiln.views.self_test import SelfTestReport, SelfTestResult
from redkiln.views.worker import GpuView
from worker.agent.children.children import Spawner
from worker.agent.children.launch import Launcher
from worker.agent.gpus.host_gpus import HostGpu
from worker.agent.gpus.patching import Patching
from worker.agent.inventory import Inventory, SlotPlan
from worker.hardware.facts.targets import find_target
from worker.hardware.health.selftest_cache import CachedReports, key_of_report
from worker.hardware.patches import PATCHES
from worker.settings import WorkerSettings

ROCM = Inventory(
    torch_version="2.10.0+rocm7.2", rocm_version="7.2.26015", arch_list=["gfx1030", "gfx1100"]
)
RIGHT = 'print(\'{"errors": {"product": 1e-7}}\')'


@pytest.fixture(autouse=True)
def no_variables_of_ours(monkeypatch):
    for patch in PATCHES:
        for name in patch.VARIABLES:
            monkeypatch.delenv(name, raising=False)


def gpu(gfx, *, number=0):
    address = f"0000:0{number + 3}:00.0"
    view = GpuView(index=number, name="a card", arch=gfx, memory_bytes=1, pci_address=address)
    facts = GpuFacts(gfx=gfx, node=number + 1, pci_address=address, is_apu=False)
    return HostGpu(address, facts, view, {"ROCR_VISIBLE_DEVICES": str(number)})


def settings_of(tmp_path, *, probe=RIGHT):
    """The probe writes a separate line each time that it runs."""
    count = f"open({str(tmp_path / 'probed')!r}, 'a').write('x')"
    command = [sys.executable, "-c", f"{count}\n{probe}"]
    return WorkerSettings(worker_dir=tmp_path / "worker", override_probe_command=command)


def outcome(outcomes, name):
    return next(o for o in outcomes if o.name == name)


def test_an_override_is_probed_once_in_a_child_and_then_remembered(tmp_path):
    settings = settings_of(tmp_path)
    for _ in range(2):
        patching = Patching(settings, ROCM)
        for _ in range(2):
            outcomes = patching.decide([gpu("gfx1031")], cache_dir=tmp_path)
            found = outcome(outcomes, "gfx_override")
            assert found.environment == {"HSA_OVERRIDE_GFX_VERSION_1": "10.3.0"}
    assert (tmp_path / "probed").read_text() == "x"


def test_the_probe_child_sees_one_gpu_with_the_candidate_override(tmp_path):
    says = (
        "import json, os, sys\n"
        "names = ('ROCR_VISIBLE_DEVICES', 'HSA_OVERRIDE_GFX_VERSION_2')\n"
        "print(json.dumps({'error': json.dumps([os.environ.get(n) for n in names])}))"
    )
    patching = Patching(settings_of(tmp_path, probe=says), ROCM)
    outcomes = patching.decide([gpu("gfx1031", number=1)], cache_dir=tmp_path)
    found = outcome(outcomes, "gfx_override")
    assert found.outcome == "refused"
    assert json.dumps(["1", "10.3.0"]) in found.why


def test_a_supported_card_is_never_probed(tmp_path):
    patching = Patching(settings_of(tmp_path), ROCM)
    assert outcome(
        patching.decide([gpu("gfx1100")], cache_dir=tmp_path), "gfx_override"
    ).outcome == ("refused")
    assert not (tmp_path / "probed").exists()


def test_a_users_override_is_neither_probed_nor_changed(tmp_path, monkeypatch):
    monkeypatch.setenv("HSA_OVERRIDE_GFX_VERSION", "10.3.0")
    patching = Patching(settings_of(tmp_path), ROCM)
    found = outcome(patching.decide([gpu("gfx1031")], cache_dir=tmp_path), "gfx_override")
    assert (found.outcome, found.environment) == ("user", {})
    assert not (tmp_path / "probed").exists()


def test_a_self_test_that_found_a_library_wrong_switches_it_off_for_that_gpu(tmp_path):
    settings = settings_of(tmp_path)
    bad = SelfTestResult(
        area="gemm_tall_skinny", precision="fp32", library="hipblaslt", shape="16384x64x8",
        reduction_length=64, max_rel_error=1.0, tolerance=1e-5, zeros_ratio=0.93,
        verdict="failed", seconds=0.1,
    )  # fmt: skip
    good = bad.model_copy(update={"library": "rocblas", "verdict": "passed", "max_rel_error": 0.0})
    report = SelfTestReport(
        at=datetime(2026, 11, 21, tzinfo=UTC), device="cuda:0", gfx="gfx1100", status="failed",
        pci_address="0000:03:00.0", results=[bad, good],
        versions={"torch": ROCM.torch_version, "rocm": ROCM.rocm_version},
    )  # fmt: skip
    CachedReports(settings.selftest_dir).save(key_of_report(report), report)
    patching = Patching(settings, ROCM)
    found = outcome(patching.decide([gpu("gfx1100")], cache_dir=tmp_path), "hipblaslt")
    assert found.outcome == "applied"
    assert "93%" in found.why
    for others in ([gpu("gfx1100", number=1)],):
        assert (
            outcome(patching.decide(others, cache_dir=tmp_path), "hipblaslt").outcome == "skipped"
        )
    newer = Patching(settings, ROCM.model_copy(update={"rocm_version": "7.3"}))
    assert (
        outcome(newer.decide([gpu("gfx1100")], cache_dir=tmp_path), "hipblaslt").outcome
        == "skipped"
    )


def test_a_trainer_runs_with_the_patches_decided_for_its_gpu(tmp_path):
    settings = settings_of(tmp_path)
    slot = SlotPlan(
        0, "gpu", "cuda:0", 1, gpu=gpu("gfx1100"), cache_key="gfx1100/x",
        device_environment={"ROCR_VISIBLE_DEVICES": "0"},
    )  # fmt: skip
    launcher = Launcher(settings, Spawner(), slot=slot, patching=Patching(settings, ROCM))
    environment = launcher.trainer_environment()
    assert environment["MIOPEN_LOG_LEVEL"] == "3"
    assert environment["ROCR_VISIBLE_DEVICES"] == "0"
    assert environment["TRITON_CACHE_DIR"].endswith("gfx1100/x/triton")
    for decided in launcher.decide_patches():
        for name, value in decided.environment.items():
            assert environment[name] == value


def test_a_slot_without_a_gpu_has_two_patches(tmp_path):
    settings = settings_of(tmp_path)
    slot = SlotPlan(0, "cpu", "cpu", 1)
    launcher = Launcher(settings, Spawner(), slot=slot, patching=Patching(settings, Inventory()))
    assert [o.name for o in launcher.decide_patches()] == ["kernel_caches", "others"]


def test_a_users_script_never_gets_the_convolution_search(tmp_path):
    patching = Patching(settings_of(tmp_path), ROCM)
    for known, expected in ((True, "applied"), (None, "skipped")):
        outcomes = patching.decide([gpu("gfx1100")], cache_dir=tmp_path, has_fixed_shapes=known)
        assert outcome(outcomes, "convolution_search").outcome == expected


def test_expandable_segments_are_tried_only_where_the_table_names_a_release(tmp_path, monkeypatch):
    row = find_target("gfx1100").model_copy(update={"expandable_since": "7.2"})
    card = gpu("gfx1100")
    command = [sys.executable, "-c", 'print(\'{"errors": {"growth": 0}}\')']
    patching = Patching(settings_of(tmp_path), ROCM, segments_command=command)
    unnamed = patching.decide([card], cache_dir=tmp_path)
    assert "expandable" not in str(outcome(unnamed, "allocator").environment)
    monkeypatch.setattr("worker.hardware.patches.facts.find_target", lambda _: row)
    named = patching.decide([card], cache_dir=tmp_path)
    allocator = outcome(named, "allocator")
    assert allocator.environment["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"
