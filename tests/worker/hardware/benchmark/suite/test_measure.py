"""A workload is measured, and one that cannot run carries its reason."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from worker.hardware.benchmark.suite.measure import SuiteSetup, measure_suite, measure_workload
from worker.hardware.benchmark.suite.workloads import NETWORKS, Workload, list_workloads

CPU = SuiteSetup(device=torch.device("cpu"), precision="fp32", seconds=0.0)


def build_tiny():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())


TINY = Workload("tiny", "inference", build_tiny, "images", batch_size=2, size=8)


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_a_workload_has_rate_operations_and_traffic(mode):
    found = measure_workload(replace(TINY, mode=mode), CPU)
    assert found.rate.value > 0
    assert found.flop == 2 * 2 * 36 * 4 * 27 * (3 if mode == "training" else 1)
    assert found.tflops == pytest.approx(found.rate.value / 2 * found.flop / 1e12)
    assert found.joules is None


def test_energy_is_the_mean_power_times_the_time_of_a_call():
    setup = replace(CPU, read_power=lambda: 50.0, seconds=0.3)
    found = measure_workload(TINY, setup)
    assert found.joules == pytest.approx(50.0 * 2 / found.rate.value, rel=1e-6)


def test_a_network_that_does_not_run_carries_the_reason():
    def fail():
        raise RuntimeError("no kernel\nmore")

    (found,) = measure_suite([replace(TINY, build=fail)], CPU, say=lambda _: None)
    assert found.skipped == "not supported: no kernel"
    assert found.tflops is None


def test_every_network_runs_in_both_modes_and_smaller_on_a_cpu():
    full, small = list_workloads(sizes="full"), list_workloads(sizes="quick")
    assert {each.network for each in full} == set(NETWORKS)
    assert len(full) == 2 * len(NETWORKS)
    assert all(b.batch_size <= a.batch_size and b.size <= a.size
               for a, b in zip(full, small, strict=True))  # fmt: skip
