"""A result of the self-test in words, for tables, reasons and logs."""

from redkiln.views.hardware import SelfTestResult

MANY_ZEROS = 0.5
"""Right results have hardly any; more than this share is worth telling."""


def describe_result(result: SelfTestResult) -> str:
    """One result in words, with its numbers: what a person needs who is told that it is wrong."""
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


def share_of_allowed(result: SelfTestResult) -> float:
    """How much of what is allowed an error takes; infinite where there is no number."""
    if result.max_rel_error is None:
        return float("inf")
    return result.max_rel_error / result.tolerance
