"""The CPU plays the device; wrong kernels are real operators whose float32 results are spoilt."""

from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from redkiln.views.self_test import SelfTestReport
from worker.hardware.health.selftest_words import is_fused_attention
from worker.hardware.health.verdicts import LT_LIBRARIES, drop_handled, judge_report
from worker.hardware.selftest import large
from worker.hardware.selftest import run as run_module
from worker.hardware.selftest.cases import attention_case, build_cases, many_rows_case
from worker.hardware.selftest.large import count_large_elements, multiply_large
from worker.hardware.selftest.libraries import list_libraries
from worker.hardware.selftest.operations import build_operations
from worker.hardware.selftest.run import compute_case, draw_inputs, run_self_test
from worker.hardware.selftest.sgd import DTYPES, train
from worker.hardware.selftest.shapes import ATTENTIONS, MANY_ROWS, AttentionShape, GemmShape

aten = torch.ops.aten


class Spoilt(TorchDispatchMode):
    """A device whose kernel for some operators is wrong in the tested type."""

    def __init__(self, operators, spoil, *, dtype=torch.float32):
        super().__init__()
        self.operators, self.spoil, self.dtype = operators, spoil, dtype

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket in self.operators:
            several = out if isinstance(out, tuple) else (out,)
            for tensor in several:
                if isinstance(tensor, torch.Tensor) and tensor.dtype == self.dtype:
                    self.spoil(tensor)
        return out


def zero_most(tensor):
    """What hipBLASLt was seen to do on gfx1201."""
    tensor.mul_((torch.arange(tensor.numel()) < tensor.numel() * 7 // 100).view(tensor.shape))


def add_a_hundredth(tensor):
    tensor.mul_(1.01)


def make_nan(tensor):
    tensor[(0,) * tensor.dim()] = float("nan")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def run(precisions=("fp32",), *, device="cpu", is_quick=True, say=lambda text: None, death=""):
    blank = SelfTestReport(at=datetime.now(UTC), device=device, is_quick=is_quick, status="error")
    return run_self_test(blank, precisions=precisions, say=say, fused_death=death)


def test_a_correct_cpu_passes_in_every_type():
    report = run(("fp32", "fp16", "bf16"))
    assert [r for r in report.results if r.verdict != "passed"] == []
    assert report.status == "passed"
    assert {r.precision for r in report.results} == {"fp32", "fp16", "bf16"}
    areas = {r.area for r in report.results}
    assert len(areas) == 11  # the quick test leaves out products of many rows
    assert judge_report(report).action == "use"


@pytest.mark.parametrize(
    ("operators", "spoil", "area"),
    [
        ({aten.mm}, zero_most, "gemm_tall_skinny"),
        ({aten.mm}, add_a_hundredth, "gemm"),
        ({aten.addmm}, zero_most, "linear"),
        ({aten.convolution}, add_a_hundredth, "convolution_forward"),
        ({aten.convolution_backward}, add_a_hundredth, "convolution_backward_weight"),
        ({aten.convolution_backward}, make_nan, "convolution_backward_input"),
        ({aten._scaled_dot_product_flash_attention_for_cpu}, zero_most, "attention_forward"),
        ({aten.native_layer_norm_backward}, add_a_hundredth, "normalization_backward"),
        ({aten.native_batch_norm}, add_a_hundredth, "normalization_forward"),
        ({aten.convolution_backward}, zero_most, "sgd"),
    ],
)
def test_a_wrong_kernel_is_found_and_named(operators, spoil, area):
    with Spoilt(operators, spoil):
        report = run()
    assert report.status == "failed"
    assert area in {r.area for r in report.bad}
    spoilt = next(r for r in report.bad if r.area == area)
    assert spoilt.nan_count > 0 if spoil is make_nan else spoilt.max_rel_error > spoilt.tolerance
    if spoil is zero_most and area != "sgd":
        assert spoilt.zeros_ratio > 0.5


def test_a_kernel_wrong_in_one_type_blocks_only_that_type():
    with Spoilt({aten.convolution}, zero_most, dtype=torch.bfloat16):
        verdict = judge_report(run(("fp32", "bf16")))
    assert (verdict.action, verdict.blocked_precisions) == ("restrict", ("bf16",))


def test_an_operation_that_cannot_run_does_not_end_the_test():
    def refuse(tensor):
        raise RuntimeError("miopenStatusUnknownError")

    with Spoilt({aten.convolution}, refuse):
        report = run()
    broken = [r for r in report.results if r.verdict == "error"]
    assert {"convolution_forward", "sgd"} <= {r.area for r in broken}
    assert broken[0].error == "miopenStatusUnknownError"
    assert any(r.area == "normalization_forward" and r.verdict == "passed" for r in report.results)


def test_after_a_device_fault_the_test_keeps_its_earlier_results(monkeypatch):
    def fault(tensor):
        raise torch.AcceleratorError("HIP error: an illegal memory access was encountered")

    monkeypatch.setattr(run_module, "is_alive", lambda device: False)
    with Spoilt({aten.convolution}, fault):
        report = run()
    assert report.results[-1].verdict == "error"
    assert report.results[-1].area.startswith("convolution")
    assert report.status == "failed"


def test_an_error_of_the_runtime_that_the_device_survives_keeps_the_later_tests():
    def refuse(tensor):
        raise torch.AcceleratorError("HIP error: invalid argument")

    with Spoilt({aten._scaled_dot_product_flash_attention_for_cpu}, refuse):
        report = run(("fp32", "bf16"))
    assert {r.area for r in report.results if r.precision == "bf16"} >= {"sgd", "gemm"}
    verdict = judge_report(report)
    assert (verdict.action, verdict.has_plain_attention) == ("restrict", True)
    assert verdict.blocked_precisions == ()


def test_a_device_that_no_longer_computes_is_lost():
    def fault(tensor):
        raise torch.AcceleratorError("HIP error: an illegal memory access was encountered")

    assert run_module.is_alive(torch.device("cpu"))
    with Spoilt({aten.add, aten.convolution}, fault):
        report = run()
    assert report.results[-1].area.startswith("convolution")


def test_fused_attention_that_killed_a_test_is_not_tried_again_and_only_restricts():
    said = []
    report = run(say=said.append, death="fp32 attention_forward flash: it exited with status -11")
    assert not any(map(is_fused_attention, said))
    assert any("attention_forward" in test for test in said)  # plain attention is tested
    verdict = judge_report(report)
    assert (verdict.action, verdict.has_plain_attention) == ("restrict", True)
    assert "exited with status -11" in verdict.reason
    assert [r.verdict for r in report.results].count("error") == 1


def test_memory_held_by_others_is_not_a_wrong_number():
    def full(tensor):
        raise torch.OutOfMemoryError("HIP out of memory")

    with Spoilt({aten.mm}, full), pytest.raises(torch.OutOfMemoryError):
        run()


def test_every_test_is_named_before_it_runs():
    said = []

    def die(tensor):
        raise KeyboardInterrupt

    with Spoilt({aten.convolution}, die), pytest.raises(KeyboardInterrupt):
        run(say=said.append)
    assert said[-1].startswith("fp32 convolution_forward")


def test_the_quick_shapes_are_part_of_the_full_ones():
    quick = [case.shape for case in build_cases(is_quick=True)]
    full = [case.shape for case in build_cases(is_quick=False)]
    assert set(quick) < set(full)
    assert len(set(full)) == len(full)


def test_attention_is_tested_at_the_sizes_of_current_models():
    full = [s for s in ATTENTIONS if not s.is_quick]
    long = [s for s in full if s.length >= 1024]
    for width in (64, 72, 80, 96, 128, 512):
        assert {s.is_causal for s in long if s.width == width} == {True, False}
        assert any(s.width == width and s.key_length != s.length for s in long)
        assert {s.length for s in long if s.width == width} >= {1024, 4096}
    assert any(s.key_length < s.length for s in full)
    assert any(s.key_length > s.length for s in full)


@pytest.mark.parametrize("name", ["overflow", "unequal lengths"])
def test_attention_that_overflows_or_is_uneven_is_found(name):
    large = AttentionShape(1, 1, 64, 72, magnitude=40)
    case = attention_case(large if name == "overflow" else AttentionShape(1, 2, 64, 80, num_keys=9))
    (wrong,) = {r.verdict for r in run_case(case, spoil=make_nan)}
    (right,) = {r.verdict for r in run_case(case)}
    assert (right, wrong) == ("passed", "failed")


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_long_causal_attention_that_is_right_passes_in_narrow_types(precision):
    case = attention_case(AttentionShape(1, 1, 1024, 64, is_causal=True))
    assert {r.verdict for r in run_case(case, precision=precision)} == {"passed"}


def test_products_of_many_rows_are_tested_and_only_split():
    def forget_the_last_rows(tensor):
        tensor[2**19 :] = 0

    assert MANY_ROWS.m == 600_000
    case = many_rows_case(GemmShape(2**19 + 8, 2, 2))
    results = list(run_case(case, {aten.addmm}, spoil=forget_the_last_rows))
    report = SelfTestReport(at=datetime.now(UTC), device="cpu", status="failed", results=results)
    verdict = judge_report(report)
    assert {(r.area, r.verdict) for r in results} == {("gemm_many_rows", "failed")}
    assert (verdict.action, verdict.splits_products) == ("restrict", True)
    assert judge_report(report.model_copy(update={"results": run_case(case)})).action == "use"


OPERATIONS = list(build_operations())


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("case", OPERATIONS, ids=lambda case: case.shape)
def test_other_operations_of_training_are_right_on_the_cpu(case, precision):
    if precision not in case.precisions:
        assert case.shape in ("grid_sample", "sparse product", "cumsum", "sum, mean and softmax")
        return
    (result,) = run_case(case, precision=precision)
    assert result.verdict == "passed", result
    assert result.area in ("sampling", "indexing", "reduction")


@pytest.mark.parametrize(
    ("shape", "operators", "spoil", "precision"),
    [
        ("grid_sample", {aten.grid_sampler_2d_backward}, make_nan, "fp32"),
        ("max_pool2d", {aten.max_pool2d_with_indices_backward}, zero_most, "bf16"),
        ("avg_pool2d", {aten.avg_pool2d_backward}, zero_most, "fp16"),
        ("interpolate bilinear", {aten.upsample_bilinear2d}, add_a_hundredth, "fp32"),
        ("interpolate bilinear", {aten.upsample_bilinear2d_backward}, zero_most, "bf16"),
        ("embedding", {aten.embedding_dense_backward}, zero_most, "fp32"),
        ("embedding", {aten.embedding_dense_backward}, zero_most, "fp16"),
        ("scatter_add", {aten.scatter_add}, zero_most, "fp32"),
        ("scatter_add", {aten.gather}, zero_most, "fp32"),  # its gradient
        ("index_add", {aten.index_add}, add_a_hundredth, "fp32"),
        ("index_add", {aten.index_select}, zero_most, "bf16"),  # its gradient
        ("sparse product", {aten.mm}, zero_most, "fp32"),
        ("cumsum", {aten.cumsum}, zero_most, "fp32"),
        ("sort", {aten.sort}, zero_most, "fp16"),
        ("sum, mean and softmax", {aten.sum}, add_a_hundredth, "fp32"),
    ],
)
def test_a_wrong_operation_is_found(shape, operators, spoil, precision):
    case = next(case for case in OPERATIONS if case.shape == shape)
    (result,) = run_case(case, operators, spoil=spoil, precision=precision)
    assert result.verdict == "failed"


def test_a_large_sum_is_compared_with_the_exact_one(monkeypatch):
    device = torch.device("cpu")
    (result,) = count_large_elements(device, size=100_000)
    assert (result.area, result.verdict, result.max_abs_error) == ("reduction", "passed", 0.0)

    monkeypatch.setattr(large, "count_large", lambda device, size: (24, 25))
    (result,) = count_large_elements(device, size=100_000)
    assert result.verdict == "failed"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_product_with_a_large_result_is_right_on_the_cpu(precision):
    (result,) = multiply_large(torch.device("cpu"), precision, None, size=100_000)
    assert (result.area, result.verdict, result.max_abs_error) == ("gemm", "passed", 0.0)


@pytest.mark.parametrize("operator", [aten.mm, aten.addmm])
def test_parts_of_a_large_result_that_are_not_written_are_found_and_restrict(operator):
    with Unwritten(operator):
        (result,) = multiply_large(torch.device("cpu"), "fp32", "rocblas", size=100_000)
    assert result.verdict == "failed"
    report = SelfTestReport(at=datetime.now(UTC), device="cpu", status="failed", results=[result])
    verdict = judge_report(report)
    assert (verdict.action, verdict.blocked_precisions) == ("restrict", ())
    assert "below 2 GiB" in verdict.reason


def test_a_large_product_that_a_library_refuses_only_restricts():
    def refuse(tensor):
        raise RuntimeError("HIPBLAS_STATUS_NOT_SUPPORTED")

    with Spoilt({aten.mm}, refuse):
        (result,) = multiply_large(torch.device("cpu"), "fp32", "rocblas", size=100_000)
    assert (result.verdict, result.error) == ("error", "HIPBLAS_STATUS_NOT_SUPPORTED")


class Unwritten(TorchDispatchMode):
    """A device that leaves the last rows of a product's output as they were."""

    def __init__(self, operator):
        super().__init__()
        self.operator = operator

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        before = kwargs["out"][-1].clone() if func.overloadpacket is self.operator else None
        out = func(*args, **kwargs)
        if before is not None:
            out[-1] = before
        return out


def test_convolutions_that_miopen_refuses_are_tried_without_it():
    def refuse(tensor):
        if torch.backends.cudnn.enabled:
            raise RuntimeError("miopenStatusUnknownError")

    with Spoilt({aten.convolution}, refuse):
        report = run()
    verdict = judge_report(report)
    assert (verdict.action, verdict.avoids_miopen) == ("restrict", True)
    assert "without MIOpen" in verdict.reason
    assert drop_handled(report).bad == []


def test_a_gpu_that_is_wrong_without_miopen_too_is_not_used():
    def refuse(tensor):
        if torch.backends.cudnn.enabled:
            raise RuntimeError("miopenStatusUnknownError")
        zero_most(tensor)

    with Spoilt({aten.convolution}, refuse):
        verdict = judge_report(run())
    assert (verdict.action, verdict.avoids_miopen) == ("exclude", False)


def run_case(case, operators=None, *, spoil=None, precision="fp32"):
    """Run one case with the first library that the CPU has for it."""
    attention = {aten._scaled_dot_product_flash_attention_for_cpu}
    inputs = draw_inputs(case, precision)
    want = case.compute([t.double() for t in inputs])
    library = "flash" if case.chosen_by == "attention" else None
    wrong = partial(Spoilt, operators or attention, spoil, dtype=DTYPES[precision])
    with wrong() if spoil else nullcontext():
        return list(compute_case(case, library, torch.device("cpu"), precision, inputs, want))


def test_the_short_run_learns_and_is_reproducible():
    device = torch.device("cpu")
    runs = [train(device, dtype=torch.float64, precision="fp32", seed=3) for _ in range(2)]
    assert torch.equal(runs[0].losses, runs[1].losses)
    assert runs[0].losses[-1] < 0.7 * runs[0].losses[0]


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch has both libraries here")
def test_a_library_missing_from_this_build_is_skipped():
    case = next(build_cases(is_quick=True))
    before = torch.backends.cuda.preferred_blas_library()
    assert list_libraries(case, torch.device("cuda"), has_lt=True) == ["cublas"]
    assert torch.backends.cuda.preferred_blas_library() == before


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
def test_a_correct_gpu_passes():
    report = run(("fp32", "fp16"), device="cuda:0", is_quick=False)
    assert [r for r in report.results if r.verdict != "passed"] == []
    assert {"rocblas", "hipblaslt", "cublas", "cublaslt"} & {r.library for r in report.results}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
def test_a_library_that_is_avoided_is_not_tested():
    case = next(build_cases(is_quick=True))
    device = torch.device("cuda")
    everything = list_libraries(case, device, has_lt=True)
    assert set(list_libraries(case, device, has_lt=False)) == set(everything) - LT_LIBRARIES
