import pytest

from redkiln.tasks.benchmark import Measure
from worker.hardware.benchmark.plan import (
    DeviceFacts,
    describe_limits,
    plan_groups,
    resolve_measure,
)

GIB = 2**30
GPU = DeviceFacts("gpu", free_bytes=16 * GIB, num_gpus=1)
CPU = DeviceFacts("cpu", free_bytes=16 * GIB)


def plan(device, **asked):
    measure = resolve_measure(Measure(**asked), device)
    return {case.id: case for group in plan_groups(measure, device) for case in group.cases}


def test_a_gpu_is_measured_with_every_size_type_and_layout():
    cases = plan(GPU)
    assert {c.size for c in cases.values() if c.test == "matmul"} == {1024, 2048, 4096, 8192}
    assert {c.precision for c in cases.values() if c.test == "matmul"} == {"fp32", "fp16", "bf16"}
    assert {c.layout for c in cases.values() if c.test == "training"} == {
        "contiguous",
        "channels_last",
    }
    assert {"memory/copy", "memory/triad", "copies/pinned", "copies/unpinned"} <= set(cases)
    assert not [case for case in cases.values() if case.skipped]


def test_a_cpu_is_measured_with_smaller_sizes_and_a_note():
    cases = plan(CPU)
    assert max(c.size for c in cases.values() if c.test == "matmul") == 1024
    assert cases["copies/pinned"].skipped == "a CPU has no device to copy to"
    (note,) = describe_limits(Measure(), CPU)
    assert "numbers of a CPU, measured with smaller sizes" in note
    assert describe_limits(Measure(), GPU) == []


def test_requested_sizes_are_used_on_a_cpu_too():
    cases = plan(CPU, sizes=[4096], tests=["matmul"], precisions=["fp32"])
    assert list(cases) == ["matmul/4096/fp32"]
    assert cases["matmul/4096/fp32"].skipped is None


@pytest.mark.parametrize(
    ("case_id", "work"),
    [
        ("matmul/1024/fp32", 2 * 1024**3),
        ("convolution/forward/fp32/contiguous", 2 * 4 * 128 * 128 * 9 * 28 * 28),
        ("convolution/step/fp32/contiguous", 3 * 2 * 4 * 128 * 128 * 9 * 28 * 28),
        ("training/resnet18/fp32/contiguous", 4),
        ("memory/copy", 2 * 256 * 2**20),
        ("memory/triad", 3 * 256 * 2**20),
        ("copies/pinned", 64 * 2**20),
    ],
)
def test_the_work_of_a_call_is_counted(case_id, work):
    assert plan(GPU, batch_size=4)[case_id].work == work


def test_single_operations_have_the_bytes_of_their_operands_for_a_roofline():
    cases = plan(GPU, batch_size=4)
    product = cases["matmul/1024/fp16"]
    assert product.moved_bytes == 3 * 2 * 1024**2
    forward = cases["convolution/forward/fp32/contiguous"]
    assert forward.moved_bytes == 4 * (2 * 4 * 128 * 28 * 28 + 128 * 128 * 9)
    assert cases["convolution/step/fp32/contiguous"].moved_bytes == 3 * forward.moved_bytes
    assert cases["training/resnet18/fp32/contiguous"].moved_bytes is None


def test_unsupported_cases_are_skipped_with_a_reason():
    device = DeviceFacts("gpu", 16 * GIB, 1, {"bf16": "gfx1030 has no bf16 arithmetic"})
    cases = plan(device)
    assert cases["matmul/1024/bf16"].skipped == "not supported: gfx1030 has no bf16 arithmetic"
    assert cases["matmul/1024/fp16"].skipped is None


def test_the_largest_products_are_skipped_if_memory_is_short():
    device = DeviceFacts("gpu", free_bytes=GIB, num_gpus=1)
    cases = plan(device, tests=["matmul"])
    assert "needs 1.6 GB, but only 0.9 GB" in cases["matmul/8192/fp32"].skipped
    assert cases["matmul/8192/fp16"].skipped is None
    assert cases["matmul/4096/fp32"].skipped is None


def test_training_steps_share_their_memory_as_they_run_one_after_the_other():
    device = DeviceFacts("gpu", free_bytes=5 * GIB, num_gpus=1)
    assert not [case for case in plan(device, tests=["training"]).values() if case.skipped]
    tiny = DeviceFacts("gpu", free_bytes=GIB, num_gpus=1)
    cases = plan(tiny, tests=["training"])
    assert all("skipped" in case.skipped for case in cases.values())


def test_naming_a_test_twice_measures_it_once():
    once = plan(GPU, tests=["memory"])
    assert plan(GPU, tests=["memory", "memory"]) == once
