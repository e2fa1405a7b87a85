"""What follows from a self-test: use the GPU, use it otherwise, or leave it alone, and why.

The order of the decisions: a GPU that could not be tested is left alone; one whose BLAS library is
wrong gets the other library, and is tested again with it; attention that is wrong in a fused kernel
alone is not fused; anything else that is wrong in float32 takes the GPU out, because every job
needs float32; a narrower type that is wrong is not used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from redkiln.views.hardware import GpuExclusion, Precision, SelfTestReport, SelfTestResult
from worker.hardware.health.selftest_words import describe_result, share_of_allowed

FAILED_CODE = "self_test_failed"
BROKEN_CODE = "self_test_error"

AVOID_HIPBLASLT: Mapping[str, str] = {
    "TORCH_BLAS_PREFER_HIPBLASLT": "0",
    "DISABLE_ADDMM_CUDA_LT": "1",
}
"""The second is for linear layers with a bias, which take the library whatever is preferred.

Source: pytorch/pytorch#150016, #189375; ROCm/rocm-libraries#5706.
"""
LT_LIBRARIES = frozenset({"hipblaslt", "cublaslt"})
PRODUCTS = frozenset({"gemm", "gemm_tall_skinny"})
BLAS_AREAS = PRODUCTS | {"linear"}
FUSED_ATTENTION = frozenset({"flash", "efficient"})
ATTENTION_AREAS = frozenset({"attention_forward", "attention_backward"})
MAX_EXAMPLES = 3

Action = Literal["use", "switch_blas", "restrict", "exclude"]


@dataclass(frozen=True)
class SelfTestVerdict:
    """A decision on one GPU.

    Attributes:
        action: `restrict` uses it without some types or kernels; `switch_blas` wants the test to be
            repeated with `environment`, and jobs to run with it, before the GPU is used.
        reason: what was wrong, with numbers; empty when nothing was.
        environment: variables that every process on this GPU gets.
        blocked_precisions: types that nothing is trained in here.
        has_plain_attention: fused attention is wrong here; only the plain one is used.
        code: of the exclusion.
    """

    action: Action
    reason: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    blocked_precisions: tuple[Precision, ...] = ()
    has_plain_attention: bool = False
    code: str = FAILED_CODE

    @property
    def denied(self) -> dict[str, str]:
        """What jobs have to do without, each with the reason."""
        names = [
            *self.blocked_precisions,
            *(["fused_attention"] if self.has_plain_attention else []),
        ]
        return dict.fromkeys(names, self.reason)

    @property
    def exclusion(self) -> GpuExclusion | None:
        """Why the GPU is left alone; None when it is used."""
        if self.action == "exclude":
            return GpuExclusion(code=self.code, message=self.reason)
        if self.action == "switch_blas":
            listed = " ".join(f"{name}={value}" for name, value in self.environment.items())
            return GpuExclusion(
                code=self.code, message=f"{self.reason}. Fix: set {listed} for the worker."
            )
        return None


def judge_report(report: SelfTestReport) -> SelfTestVerdict:
    """The decision that a report leads to.

    A report of a test that ran under the variables of `switch_blas` decides for good: the library
    that is avoided was tested by itself all the same, and what it does counts no more.
    """
    if report.status == "error":
        return refuse_untested(report.cause)
    has_switched = avoids_hipblaslt(report.settings)
    used = [r for r in report.results if not (has_switched and r.library in LT_LIBRARIES)]
    if not used:
        return refuse_untested("it reported no result")
    if not has_switched and can_switch_blas(report):
        reason = f"wrong numbers by one of two BLAS libraries: {_list_worst(report.bad)}"
        return SelfTestVerdict("switch_blas", reason, environment=AVOID_HIPBLASLT)
    return _judge_used(used)


def _judge_used(results: Sequence[SelfTestResult]) -> SelfTestVerdict:
    wrong = [result for result in results if result.verdict != "passed"]
    attention = _only_fused_attention(wrong)
    rest = [result for result in wrong if result not in attention]
    if fatal := [result for result in rest if result.precision == "fp32"]:
        return SelfTestVerdict("exclude", f"wrong numbers: {_list_worst(fatal)}. {FIX}")
    blocked = tuple(sorted({result.precision for result in rest}))
    parts = [f"not trained in {name}" for name in blocked]
    parts += ["attention is not fused"] if attention else []
    if not parts:
        return SelfTestVerdict("use")
    return SelfTestVerdict(
        "restrict",
        f"{', '.join(parts)}: {_list_worst(wrong)}",
        blocked_precisions=blocked,
        has_plain_attention=bool(attention),
    )


def can_switch_blas(report: SelfTestReport) -> bool:
    """Whether products are wrong by the -Lt library, and right by the other.

    Linear layers and training do not count for the other one: with a bias torch may take -Lt for
    them whatever is preferred, so only a repeated test can tell.
    """
    wrong = [r for r in report.bad if r.area in BLAS_AREAS]
    plain = [r for r in report.results if r.area in PRODUCTS and r.library not in LT_LIBRARIES]
    has_choice = any(result.library in LT_LIBRARIES for result in report.results)
    return bool(wrong) and has_choice and all(r.verdict == "passed" for r in plain)


def avoids_hipblaslt(settings: Mapping[str, str]) -> bool:
    """Whether a process under these variables keeps away from the -Lt library."""
    return all(settings.get(name) == value for name, value in AVOID_HIPBLASLT.items())


def refuse_untested(cause: str) -> SelfTestVerdict:
    """The decision on a GPU whose test did not come to an end.

    Args:
        cause: what was seen: the words of an exception, or how the process died and in what.
    """
    return SelfTestVerdict("exclude", f"the self-test could not run: {cause}", code=BROKEN_CODE)


FIX = (
    "Update ROCm and torch; if the same numbers come again the card or its driver is faulty. "
    "`python -m worker.hardware.selftest` repeats the test."
)


def _only_fused_attention(wrong: Sequence[SelfTestResult]) -> list[SelfTestResult]:
    found = [result for result in wrong if result.area in ATTENTION_AREAS]
    return found if all(result.library in FUSED_ATTENTION for result in found) else []


def _list_worst(results: Sequence[SelfTestResult]) -> str:
    """The worst result of each area and type, a few of them, each with its numbers."""
    worst: dict[tuple[str, str], SelfTestResult] = {}
    for result in sorted(results, key=share_of_allowed, reverse=True):
        worst.setdefault((result.area, result.precision), result)
    told = [describe_result(result) for result in list(worst.values())[:MAX_EXAMPLES]]
    more = len(results) - len(told)
    return "; ".join(told) + (f" (and {more} more)" if more > 0 else "")
