"""Decisions from a self-test: use the GPU, use it with restrictions, or exclude it, and why.

The order of the decisions: a GPU that could not be tested is excluded. A GPU with one wrong BLAS
library gets the other one and is tested again. If only fused attention is wrong, attention is not
fused. If only products of very many rows are wrong, they are computed in blocks; if only products
of over 2 GiB are, the reason says so. Anything else that is wrong in float32 excludes the GPU,
because every job needs float32. A narrower type that is wrong is not used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal

from redkiln.views.hardware import GpuExclusion, Precision
from redkiln.views.self_test import SelfTestReport, SelfTestResult
from worker.hardware.health.selftest_words import (
    FUSED_ATTENTION,
    describe_result,
    share_of_allowed,
)

FAILED_CODE = "self_test_failed"
BROKEN_CODE = "self_test_error"

AVOID_HIPBLASLT: Mapping[str, str] = {
    "TORCH_BLAS_PREFER_HIPBLASLT": "0",
    "DISABLE_ADDMM_CUDA_LT": "1",
    "ROCBLAS_USE_HIPBLASLT": "0",
}
"""The second variable is for linear layers with a bias, which ignore the preferred library; the
third is for rocBLAS, which calls hipBLASLt on gfx12.

Source: pytorch/pytorch#150016, #189375; ROCm/rocm-libraries#5706.
"""
NO_HIPBLASLT = " ".join(f"{name}={value}" for name, value in AVOID_HIPBLASLT.items())
"""The same, as people type it."""
WITHOUT_MIOPEN = "without MIOpen"
"""Library of results that were computed again after MIOpen had refused."""
MIOPEN_REFUSES = "miopenstatus"
_library_of = attrgetter("library")
LT_LIBRARIES = frozenset({"hipblaslt", "cublaslt"})
PRODUCTS = frozenset({"gemm", "gemm_tall_skinny"})
BLAS_AREAS = PRODUCTS | {"linear"}
ATTENTION_AREAS = frozenset({"attention_forward", "attention_backward"})
MAX_PRODUCT_ROWS = 2**19
"""Products of up to this many rows were right on GPUs where larger ones were wrong.

Source: ROCm/legacy-rocm-build#6595 (524,288 rows right, 600,000 wrong), read 2026-11-23.
"""
LARGE_OUTPUT = "output of over 2 GiB"
"""Beginning of the shape of products whose result is larger than 32-bit offsets reach."""
MAX_EXAMPLES = 3

Action = Literal["use", "switch_blas", "restrict", "exclude"]


@dataclass(frozen=True)
class SelfTestVerdict:
    """A decision on one GPU.

    Attributes:
        action: `restrict` uses the GPU without some types or kernels. `switch_blas` requires that
            the test is repeated with `environment`, and that jobs run with it, before the GPU is
            used.
        reason: Fault, with numbers; empty without one.
        environment: Variables for every process on this GPU.
        blocked_precisions: Types that are not used for training here.
        has_plain_attention: Whether fused attention is wrong here, so that only plain attention is
            used.
        splits_products: Whether float32 products of very many rows are wrong here, so that they are
            computed in blocks.
        avoids_miopen: Whether MIOpen refuses to compute here and torch's own kernels are right, so
            that these are used.
        code: Code of the exclusion.
    """

    action: Action
    reason: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    blocked_precisions: tuple[Precision, ...] = ()
    has_plain_attention: bool = False
    splits_products: bool = False
    avoids_miopen: bool = False
    code: str = FAILED_CODE

    @property
    def denied(self) -> dict[str, str]:
        """What jobs must not use, each with the reason."""
        names = [
            *self.blocked_precisions,
            *(["fused_attention"] if self.has_plain_attention else []),
        ]
        return dict.fromkeys(names, self.reason)

    @property
    def exclusion(self) -> GpuExclusion | None:
        """Why the GPU is excluded; None if it is used."""
        if self.action == "exclude":
            return GpuExclusion(code=self.code, message=self.reason)
        if self.action == "switch_blas":
            listed = " ".join(f"{name}={value}" for name, value in self.environment.items())
            return GpuExclusion(
                code=self.code, message=f"{self.reason}. Fix: set {listed} for the worker."
            )
        return None


def judge_report(report: SelfTestReport) -> SelfTestVerdict:
    """Decide from a report.

    A report of a test with the variables of `switch_blas` is final: results of the avoided library
    do not count, although it was tested too.
    """
    if report.status == "error":
        return refuse_untested(report.cause)
    has_switched = avoids_hipblaslt(report.settings)
    used = [r for r in report.results if not (has_switched and r.library in LT_LIBRARIES)]
    if not used:
        return refuse_untested("it reported no result")
    if not has_switched and can_switch_blas(report):
        reason = f"one of two BLAS libraries computes wrong numbers: {_list_worst(report.bad)}"
        return SelfTestVerdict("switch_blas", reason, environment=AVOID_HIPBLASLT)
    return _judge_used(used)


def _judge_used(results: Sequence[SelfTestResult]) -> SelfTestVerdict:
    wrong = [result for result in results if result.verdict != "passed"]
    attention = _only_fused_attention(wrong)
    tall = [r for r in wrong if r.area == "gemm_many_rows" and r.precision == "fp32"]
    refused = _refused_but_right(results)
    large = [r for r in wrong if r.shape.startswith(LARGE_OUTPUT)]
    rest = [result for result in wrong if result not in [*attention, *tall, *refused, *large]]
    if fatal := [result for result in rest if result.precision == "fp32"]:
        return SelfTestVerdict("exclude", f"wrong numbers: {_list_worst(fatal)}. {FIX}")
    blocked = tuple(sorted({result.precision for result in rest}))
    parts = [f"not trained in {name}" for name in blocked]
    parts += ["attention is not fused"] if attention else []
    parts += [f"products of over {MAX_PRODUCT_ROWS:,} rows are split"] if tall else []
    parts += ["convolutions are computed without MIOpen"] if refused else []
    parts += ["products must stay below 2 GiB: use smaller batches"] if large else []
    if not parts:
        return SelfTestVerdict("use")
    return SelfTestVerdict(
        "restrict",
        f"{', '.join(parts)}: {_list_worst(wrong)}",
        blocked_precisions=blocked,
        has_plain_attention=bool(attention),
        splits_products=bool(tall),
        avoids_miopen=bool(refused),
    )


def drop_handled(report: SelfTestReport) -> SelfTestReport:
    """Leave out wrong results that no job gets, because jobs compute them in another way."""
    handled = [r for r in report.results if r.area == "gemm_many_rows"]
    handled += _refused_but_right(report.results)
    kept = [result for result in report.results if result not in handled]
    return report.model_copy(update={"results": kept})


def is_refused_by_miopen(result: SelfTestResult) -> bool:
    """Return whether MIOpen did not compute a result."""
    return result.verdict == "error" and MIOPEN_REFUSES in result.error.lower()


def _refused_but_right(results: Sequence[SelfTestResult]) -> list[SelfTestResult]:
    """Return what MIOpen refused, if everything was right without it."""
    again = [result for result in results if _library_of(result) == WITHOUT_MIOPEN]
    if not again or any(result.verdict != "passed" for result in again):
        return []
    return [result for result in results if is_refused_by_miopen(result)]


def can_switch_blas(report: SelfTestReport) -> bool:
    """Return whether products are wrong with the -Lt library but right with the other one.

    Linear layers and training do not count for the other one: with a bias torch may use -Lt for
    them in any case, so only a repeated test can show it.
    """
    wrong = [r for r in report.bad if r.area in BLAS_AREAS]
    plain = [r for r in report.results if r.area in PRODUCTS and r.library not in LT_LIBRARIES]
    has_choice = any(result.library in LT_LIBRARIES for result in report.results)
    return bool(wrong) and has_choice and all(r.verdict == "passed" for r in plain)


def avoids_hipblaslt(settings: Mapping[str, str]) -> bool:
    """Return whether a process with these variables avoids the -Lt library."""
    return all(settings.get(name) == value for name, value in AVOID_HIPBLASLT.items())


def refuse_untested(cause: str) -> SelfTestVerdict:
    """Return the decision on a GPU whose test did not finish.

    Args:
        cause: An exception's message, or how the process died and during which test.
    """
    return SelfTestVerdict("exclude", f"the self-test could not run: {cause}", code=BROKEN_CODE)


FIX = (
    "Update ROCm and torch; if the same numbers appear again, the card or its driver is faulty. "
    "`python -m worker.hardware.selftest` repeats the test."
)


def _only_fused_attention(wrong: Sequence[SelfTestResult]) -> list[SelfTestResult]:
    found = [result for result in wrong if result.area in ATTENTION_AREAS]
    return found if all(result.library in FUSED_ATTENTION for result in found) else []


def _list_worst(results: Sequence[SelfTestResult]) -> str:
    """Describe the worst result of each area and type, up to a limit, with its numbers."""
    worst: dict[tuple[str, str], SelfTestResult] = {}
    for result in sorted(results, key=share_of_allowed, reverse=True):
        worst.setdefault((result.area, result.precision), result)
    shown = [describe_result(result) for result in list(worst.values())[:MAX_EXAMPLES]]
    more = len(results) - len(shown)
    return "; ".join(shown) + (f" (and {more} more)" if more > 0 else "")
