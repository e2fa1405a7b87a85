"""The measurements themselves, on the CPU with tiny sizes."""

import pytest
import torch
from torch import nn

from redkiln.tasks.benchmark import Measure
from redkiln.views.hardware import GpuFacts
from worker.hardware.benchmark.operations import build_call, probe
from worker.hardware.benchmark.plan import Case, DeviceFacts, Group, plan_groups, resolve_measure
from worker.hardware.benchmark.run import BenchmarkSetup, find_peak, measure_group

CPU = torch.device("cpu")
FACTS = DeviceFacts("cpu", free_bytes=2**30)
TINY = Measure(sizes=[32], batch_size=2, image_size=32, precisions=["fp32", "bf16"])


class TinyNet(nn.Sequential):
    def __init__(self, _side):
        super().__init__(
            nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 1000)
        )


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.setattr("worker.hardware.benchmark.timing.SAMPLE_SECONDS", 0.0)
    return BenchmarkSetup(device=CPU, build_model=TinyNet, gpu=None, rounds=3)


def groups(*tests, **changes):
    measure = resolve_measure(TINY.model_copy(update={"tests": list(tests), **changes}), FACTS)
    return plan_groups(measure, FACTS)


@pytest.mark.parametrize("test", ["matmul", "convolution", "training"])
def test_every_member_of_a_group_gets_a_rate(bench, test):
    for group in groups(test):
        measured = measure_group(group, bench, seconds=30)
        assert [m.id for m in measured] == [case.id for case in group.cases]
        for item in measured:
            assert item.skipped is None
            assert item.rate.value > 0
            assert item.rate.num_samples == 3
            assert item.seconds > 0
            assert item.peak is None


def test_the_memory_is_measured_in_bytes_a_second(bench):
    facts = DeviceFacts("cpu", free_bytes=2**23)
    (group,) = plan_groups(resolve_measure(Measure(tests=["memory"]), facts), facts)
    copy, triad = measure_group(group, bench, seconds=30)
    assert (copy.size, triad.size) == (2**20, 2**20)
    assert copy.seconds == pytest.approx(2 * 2**20 / 1e9 / copy.rate.value)


def test_the_rate_is_work_divided_by_time(bench):
    (group,) = groups("matmul", precisions=["fp32"])
    (measured,) = measure_group(group, bench, seconds=30)
    assert measured.rate.value == pytest.approx(2 * 32**3 / 1e12 / measured.seconds)


def test_failed_members_have_a_reason_and_the_rest_is_measured(bench):
    (group,) = groups("training", precisions=["fp32"])

    class Broken(TinyNet):
        def __init__(self, side):
            if torch.initial_seed() == 7:
                raise RuntimeError("no kernel for this\nat line 3")
            super().__init__(side)

    seeds = iter([7, 8])

    def build(side):
        torch.manual_seed(next(seeds))
        return Broken(side)

    first, second = measure_group(
        group, BenchmarkSetup(device=CPU, build_model=build, gpu=None, rounds=3), seconds=30
    )
    assert first.skipped == "not supported: no kernel for this"
    assert second.rate is not None


def test_a_member_skipped_by_the_plan_is_not_tried(bench):
    case = Case("matmul/9/fp32", "matmul", "a", "TFLOP/s", 1.0, 1, skipped="not today")
    (measured,) = measure_group(Group("a", (case,)), bench, seconds=30)
    assert (measured.skipped, measured.rate) == ("not today", None)


@pytest.mark.parametrize(
    ("case", "peak"),
    [
        (Case("m", "matmul", "m", "TFLOP/s", 1.0, 1, precision="fp16"), 123.0),
        (Case("m", "matmul", "m", "TFLOP/s", 1.0, 1, precision="bf16"), None),
        (Case("m", "memory", "m", "GB/s", 1.0, 1), 960.0),
        (Case("m", "copies", "m", "GB/s", 1.0, 1), None),
        (Case("m", "training", "m", "images/s", 1.0, 1, precision="fp16"), None),
    ],
)
def test_the_peak_is_in_the_unit_of_the_test(case, peak):
    gpu = GpuFacts(peak_tflops={"fp16": 123.0}, memory_bandwidth_bytes_per_second=960_000_000_000)
    assert find_peak(case, gpu) == peak
    assert find_peak(case, None) is None
    assert find_peak(case, GpuFacts()) is None


def test_a_call_returns_its_result():
    (group,) = groups("matmul", precisions=["fp32"])
    torch.manual_seed(0)
    call = build_call(group.cases[0], device=CPU, build_model=TinyNet)
    torch.manual_seed(0)
    a, b = torch.randn(32, 32), torch.randn(32, 32)
    assert torch.allclose(call(), a @ b, atol=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_type_is_tried_with_a_product_and_a_convolution(precision):
    probe(precision, device=CPU)
