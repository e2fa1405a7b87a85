from tests.worker.hardware.health.test_verdicts import report, result
from worker.hardware.health.selftest_words import keep_worst


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
