"""Self-test results in words, for tables, reasons and logs, and the few that show the rest."""

import re
from collections.abc import Iterable

from redkiln.views.hardware import Precision
from redkiln.views.self_test import SelfTestReport, SelfTestResult

FUSED_ATTENTION = frozenset({"flash", "efficient"})
"""Torch's fused kernels for attention; plain attention is computed by matrix products."""
_TEST = re.compile(r"^(?:fp32|fp16|bf16) (?:[a-z0-9_]+ )+.*$", re.M)
MANY_ZEROS = 0.5
"""Right results contain hardly any zeros; a larger share than this is reported."""


def describe_result(result: SelfTestResult) -> str:
    """Describe one result with the numbers that show why it is wrong."""
    via = f" by {result.library}" if result.library else ""
    what = f"{result.area.replace('_', ' ')} in {result.precision}{via}, {result.shape}"
    if result.verdict == "error":
        return f"{what}: could not run: {result.error}"
    parts = [f"{result.zeros_ratio:.0%} zeros"] if result.zeros_ratio > MANY_ZEROS else []
    if result.nan_count:
        parts.append(f"{result.nan_count} numbers that are not finite")
    elif result.max_rel_error is not None:
        parts.append(f"error {result.max_rel_error:.2g}, allowed {result.tolerance:.2g}")
    return f"{what}: {', '.join(parts)}"


def name_test(precision: Precision, areas: Iterable[str], library: str | None, shape: str) -> str:
    """Name a test on the line that is printed before it runs."""
    return f"{precision} {' '.join(areas)} {library or ''} {shape}"


def find_last_test(log: str) -> str | None:
    """Return the last test that a log names, which is the one that did not end."""
    found = _TEST.findall(log)
    return found[-1] if found else None


def is_fused_attention(test: str) -> bool:
    """Return whether a test, as it was named, uses a fused kernel for attention."""
    return "attention_" in test and bool(FUSED_ATTENTION & set(test.split()))


def keep_worst(report: SelfTestReport) -> SelfTestReport:
    """Return a report with only the worst result of each area, type and library, for a message."""
    worst: dict[object, SelfTestResult] = {}
    for result in report.results:
        key = (result.area, result.precision, result.library)
        if key not in worst or _badness(result) > _badness(worst[key]):
            worst[key] = result
    return report.model_copy(update={"results": list(worst.values())})


def _badness(result: SelfTestResult) -> tuple[bool, float]:
    return result.verdict != "passed", share_of_allowed(result)


def share_of_allowed(result: SelfTestResult) -> float:
    """Return an error as a share of the allowed one; infinite without a number."""
    if result.max_rel_error is None:
        return float("inf")
    return result.max_rel_error / result.tolerance
