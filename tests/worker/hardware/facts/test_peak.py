import pytest

from redkiln.views.hardware import GpuFacts
from worker.hardware.facts.peak import compute_peak_tflops


@pytest.mark.parametrize(
    ("gfx", "units", "mhz", "peak"),
    [
        ("gfx1030", 72, 2250, {"fp32": 20.74, "fp16": 41.47}),
        ("gfx1100", 96, 2500, {"fp32": 61.44, "fp16": 122.88, "bf16": 122.88}),
        ("gfx1201", 64, 2970, {"fp32": 48.66, "fp16": 194.64, "bf16": 194.64}),
        ("gfx900", 64, 1500, {"fp32": 12.29, "fp16": 24.58}),
        ("gfx908", 120, 1502, {"fp32": 46.14, "fp16": 184.57, "bf16": 92.28}),
        ("gfx90a", 104, 1700, {"fp32": 45.26, "fp16": 181.04, "bf16": 181.04}),
        ("gfx942", 304, 2100, {"fp32": 163.43, "fp16": 1307.44, "bf16": 1307.44}),
        ("gfx950", 256, 2400, {"fp32": 157.29, "fp16": 2516.58, "bf16": 2516.58}),
    ],
)
def test_the_peak_matches_the_product_pages(gfx, units, mhz, peak):
    facts = GpuFacts(gfx=gfx, cu_count=units, max_clock_mhz=mhz)
    assert compute_peak_tflops(facts) == peak


@pytest.mark.parametrize("missing", ["gfx", "cu_count", "max_clock_mhz"])
def test_without_a_factor_there_is_no_peak(missing):
    facts = GpuFacts(gfx="gfx1030", cu_count=72, max_clock_mhz=2250)
    assert compute_peak_tflops(facts.model_copy(update={missing: None})) == {}


def test_an_unknown_target_has_no_peak():
    assert compute_peak_tflops(GpuFacts(gfx="gfx9999", cu_count=1, max_clock_mhz=1)) == {}
