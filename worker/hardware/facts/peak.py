"""The peak arithmetic rate of a GPU, from its facts and the table of targets."""

from redkiln.views.hardware import GpuFacts
from worker.hardware.facts.targets import find_target


def compute_peak_tflops(facts: GpuFacts) -> dict[str, float]:
    """Return the peak by type in 10^12 floating-point operations a second; empty if unknown.

    It is the product of compute units, lanes, operations per lane and clock, and the highest clock
    that the driver allows. Vendors quote a lower, typical clock: an RX 6800 XT has 20.7 TFLOPS of
    fp32 at its 2.25 GHz.
    """
    target = find_target(facts.gfx) if facts.gfx else None
    if target is None or not facts.cu_count or not facts.max_clock_mhz:
        return {}
    lanes_per_second = facts.cu_count * target.lanes_per_cu * facts.max_clock_mhz * 1e6
    return {
        name: round(lanes_per_second * flop / 1e12, 2)
        for name, flop in target.flop_per_lane_per_clock.items()
    }
