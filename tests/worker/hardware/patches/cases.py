"""GPUs, versions and measurements that the tests of patches decide on."""

from datetime import UTC, datetime

from redkiln.views.hardware import GpuFacts
from redkiln.views.self_test import SelfTestReport, SelfTestResult
from worker.hardware.override import ProbeResult
from worker.hardware.patches import decide_all
from worker.hardware.patches.facts import PatchFacts
from worker.hardware.patches.trials import Trial

CLASSIC = {"torch": "2.10.0+rocm7.2", "rocm": "7.2.26015-fc0010cf6a"}
THEROCK = {"torch": "2.13.0+rocm10.0", "rocm": "10.0.26300"}
WHEELS = ("gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")
PASSED = ProbeResult(verdict="passed", detail="product correct in a probe")
FAILED = ProbeResult(verdict="failed", detail="the probe crashed (signal 6)")
NOW = datetime(2026, 11, 21, tzinfo=UTC)


def gpu(gfx, *, node=1, is_apu=False, **facts):
    return GpuFacts(gfx=gfx, node=node, is_apu=is_apu, **facts)


def facts_of(gfx, *, versions=CLASSIC, arch_list=WHEELS, **more):
    gpus = more.pop("gpus", (gpu(gfx),))
    return PatchFacts("rocm", gpus, arch_list=arch_list, **versions, **more)


def outcome(facts, name):
    return next(o for o in decide_all(facts) if o.name == name)


def trial(patch, *, ratio=0.8, is_right=True, num_pairs=9):
    return {
        patch: Trial(
            patch=patch, ratio=ratio, num_pairs=num_pairs, is_right=is_right, what="x", at=NOW
        )
    }


def self_test(area, *, library=None, verdict="failed"):
    result = SelfTestResult(
        area=area, precision="fp32", library=library, shape="1x1", reduction_length=1,
        tolerance=1e-5, verdict=verdict, seconds=0.1,
    )  # fmt: skip
    return (SelfTestReport(at=NOW, device="cuda:0", status="failed", results=[result]),)
