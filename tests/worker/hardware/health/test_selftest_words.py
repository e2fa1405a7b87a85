import pytest

from tests.worker.hardware.health.test_verdicts import report, result
from worker.hardware.health.selftest_words import (
    find_last_test,
    is_fused_attention,
    keep_worst,
    name_test,
)


@pytest.mark.parametrize(
    ("areas", "library", "is_fused"),
    [
        (["attention_forward", "attention_backward"], "flash", True),
        (["attention_forward"], "efficient", True),
        (["attention_forward"], "math", False),
        (["gemm"], "hipblaslt", False),
        (["sgd"], None, False),
    ],
)
def test_the_test_that_did_not_end_is_found_before_its_crash(areas, library, is_fused):
    first = name_test("fp32", ["gemm"], "rocblas", "8x8")
    test = name_test("bf16", areas, library, "1x1x1024x72 causal")
    last = find_last_test(f"{first}\n{test}\nMemory access fault by GPU node-1\nAborted\n")
    assert last == test
    assert is_fused_attention(last) == is_fused


def test_a_log_without_a_test_names_none():
    assert find_last_test("ImportError: libamdhip64.so.7\n") is None


def test_a_message_has_the_worst_result_of_each_area_type_and_library():
    wrong = result("gemm", "fp16", "hipblaslt", is_good=False, shape="wrong")
    broken = result("gemm", "fp16", "rocblas", error="launch failed", shape="broken")
    kept = keep_worst(
        report(
            result("gemm", "fp16", "hipblaslt"), wrong, result("gemm", "fp16", "hipblaslt"),
            result("gemm", "fp16", "rocblas"), broken,
            result("gemm", "fp32", "rocblas"),
        )
    )  # fmt: skip
    assert kept.results == [wrong, broken, result("gemm", "fp32", "rocblas")]
    assert kept.status == "failed"
