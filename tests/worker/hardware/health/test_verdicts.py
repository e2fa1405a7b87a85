from datetime import UTC, datetime

import pytest

from redkiln.views.self_test import SelfTestReport, SelfTestResult
from worker.hardware.health.verdicts import judge_report, refuse_untested


def result(area, precision, library=None, *, is_good=True, zeros=0.0, nan=0, error="", shape="s"):
    rel = None if nan or error else (1e-7 if is_good else 4.2)
    verdict = "error" if error else "passed" if is_good and not nan else "failed"
    return SelfTestResult(
        area=area,
        precision=precision,
        library=library,
        shape=shape,
        reduction_length=64,
        max_abs_error=rel,
        max_rel_error=rel,
        tolerance=6e-6,
        zeros_ratio=zeros,
        nan_count=nan,
        verdict=verdict,
        seconds=0.01,
        error=error,
    )


def report(*results, status=None, cause=""):
    is_good = all(r.verdict == "passed" for r in results)
    return SelfTestReport(
        at=datetime.now(UTC),
        device="cuda:0",
        gfx="gfx1201",
        status=status or ("passed" if is_good else "failed"),
        cause=cause,
        results=list(results),
    )


def products(precision="fp32", **wrong):
    """Both libraries' products; `wrong` names areas that hipBLASLt gets wrong."""
    return [
        result(
            area,
            precision,
            library,
            is_good=not (library == "hipblaslt" and area in wrong),
            zeros=0.93 if library == "hipblaslt" and area in wrong else 0,
        )
        for area in ("gemm", "gemm_tall_skinny")
        for library in ("rocblas", "hipblaslt")
    ]


REST = [result(area, "fp32") for area in ("linear", "convolution_forward", "sgd")]
WRONG_LT = products(gemm_tall_skinny=True)

TABLE = [
    ("all is right", [*products(), *REST], "use", (), False, ""),
    ("hipBLASLt's zeros", [*WRONG_LT, *REST], "switch_blas", (), False, "93% zeros"),
    (
        "hipBLASLt's zeros reach linear layers and training",
        [*WRONG_LT, result("linear", "fp32", "rocblas", is_good=False),
         result("sgd", "fp32", is_good=False)],
        "switch_blas", (), False, "gemm tall skinny in fp32 by hipblaslt",
    ),
    (
        "only fp16 is wrong in hipBLASLt",
        [*products(), *products("fp16", gemm_tall_skinny=True), *REST],
        "switch_blas", (), False, "in fp16 by hipblaslt",
    ),
    (
        "both libraries are wrong",
        [result("gemm", "fp32", "rocblas", is_good=False),
         result("gemm", "fp32", "hipblaslt", is_good=False)],
        "exclude", (), False, "allowed 6e-06",
    ),
    (
        "products are wrong and there is no choice",
        [result("gemm_tall_skinny", "fp32", is_good=False)],
        "exclude", (), False, "error 4.2",
    ),
    (
        "gradients of convolutions are no numbers",
        [*products(), result("convolution_backward_weight", "fp32", nan=12)],
        "exclude", (), False, "convolution backward weight in fp32, s: 12 numbers",
    ),
    (
        "training goes wrong by itself",
        [*products(), *REST[:-1], result("sgd", "fp32", is_good=False)],
        "exclude", (), False, "sgd in fp32",
    ),
    (
        "bf16 is wrong",
        [*products(), *REST, result("convolution_forward", "bf16", is_good=False)],
        "restrict", ("bf16",), False, "not trained in bf16",
    ),
    (
        "both narrow types are wrong",
        [*products(), *REST, result("sgd", "fp16", nan=1), result("sgd", "bf16", nan=1)],
        "restrict", ("bf16", "fp16"), False, "sgd in fp16",
    ),
    (
        "fused attention is wrong",
        [*products(), *REST, result("attention_forward", "fp32", "math"),
         result("attention_backward", "fp16", "flash", is_good=False)],
        "restrict", (), True, "by flash",
    ),
    (
        "all attention is wrong in fp32",
        [*products(), result("attention_forward", "fp32", "math", is_good=False)],
        "exclude", (), False, "attention forward",
    ),
    (
        "an operation cannot run",
        [*products(), result("convolution_forward", "fp32", error="miopenStatusUnknownError")],
        "exclude", (), False, "miopenStatusUnknownError",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("results", "action", "blocked", "plain", "words"),
    [row[1:] for row in TABLE],
    ids=[row[0] for row in TABLE],
)
def test_a_report_leads_to_its_decision(results, action, blocked, plain, words):
    verdict = judge_report(report(*results))
    assert (verdict.action, verdict.blocked_precisions) == (action, blocked)
    assert verdict.has_plain_attention is plain
    assert words in verdict.reason
    assert bool(verdict.environment) is (action == "switch_blas")
    assert (verdict.exclusion is not None) is (action in ("exclude", "switch_blas"))


def test_the_reason_of_an_exclusion_says_what_to_do():
    verdict = judge_report(report(result("sgd", "fp32", nan=3)))
    assert verdict.exclusion.code == "self_test_failed"
    assert "python -m worker.hardware.selftest" in verdict.exclusion.message


def test_many_failures_are_summarised_by_the_worst():
    shapes = [result("gemm", "fp32", is_good=False, shape=f"{n}") for n in range(5)]
    areas = ("linear", "convolution_forward", "sgd")
    verdict = judge_report(report(*shapes, *(result(a, "fp32", is_good=False) for a in areas)))
    assert verdict.reason.count("error 4.2") == 3
    assert "(and 5 more)" in verdict.reason


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (report(status="error", cause="no device"), "no device"),
        (report(status="passed"), "no result"),
    ],
)
def test_a_gpu_that_could_not_be_tested_is_excluded(given, words):
    verdict = judge_report(given)
    assert verdict.exclusion.code == "self_test_error"
    assert words in verdict.reason
    assert refuse_untested("x").action == "exclude"


AVOIDED = {
    "TORCH_BLAS_PREFER_HIPBLASLT": "0",
    "DISABLE_ADDMM_CUDA_LT": "1",
    "ROCBLAS_USE_HIPBLASLT": "0",
}


def repeated(*results, settings=AVOIDED):
    return report(*results).model_copy(update={"settings": settings})


def test_results_of_an_avoided_library_do_not_count():
    first = judge_report(report(*WRONG_LT, *REST))
    assert first.environment == AVOIDED
    assert "93% zeros" in first.exclusion.message
    assert "set TORCH_BLAS_PREFER_HIPBLASLT=0 DISABLE_ADDMM_CUDA_LT=1" in first.exclusion.message
    assert judge_report(repeated(*WRONG_LT, *REST)).action == "use"


def test_one_of_the_two_variables_is_not_enough_to_avoid_hipblaslt():
    half = {"TORCH_BLAS_PREFER_HIPBLASLT": "0"}
    assert judge_report(repeated(*WRONG_LT, *REST, settings=half)).action == "switch_blas"


def test_errors_with_the_other_library_exclude_the_gpu():
    wrong = [*WRONG_LT, result("linear", "fp32", "rocblas", is_good=False)]
    assert judge_report(report(*wrong)).action == "switch_blas"
    verdict = judge_report(repeated(*wrong))
    assert verdict.action == "exclude"
    assert "linear in fp32 by rocblas" in verdict.reason


def test_a_narrow_type_wrong_with_the_other_library_is_blocked():
    verdict = judge_report(repeated(*WRONG_LT, result("sgd", "bf16", nan=1)))
    assert (verdict.action, verdict.blocked_precisions) == ("restrict", ("bf16",))
