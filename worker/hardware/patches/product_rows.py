"""Compute float32 products of very many rows in blocks.

Problem: on gfx1201 rocBLAS and hipBLASLt start fewer groups of threads than a product of more than
524,288 rows needs, and the other rows are never written. No error is reported.
Applies to: targets with a limit in the table, unless the self-test found such products right with
these versions, and any GPU whose self-test found them wrong.
Effect: torch's mm, addmm, bmm and baddbmm compute at most that many rows at once, in float32 and
float64; each call takes some microseconds longer.
Evidence: ROCm/legacy-rocm-build#6595 (float32, both libraries, ROCm 7.2.1; fp16 and bf16 are
right), ROCm/rocm-libraries#8645 (float64) and #9184 (the cause; open on 2026-11-23).
Remove when: #9184 is in a released ROCm and the self-test passes with it on gfx1201.
"""

from collections.abc import Sequence

from redkiln.views.self_test import SelfTestResult
from worker.hardware.health.verdicts import MAX_PRODUCT_ROWS
from worker.hardware.patches.decision import Decision, Scope, apply, skip, skip_unknown
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES: tuple[str, ...] = ()


def decide(facts: PatchFacts) -> Decision:
    """Split products that the self-test found wrong, or that nothing has shown to be right."""
    wrong = [verdict.reason for verdict in facts.verdicts if verdict.splits_products]
    if wrong:
        return _split(wrong[-1], MAX_PRODUCT_ROWS)
    if not facts.targets:
        return skip_unknown()
    limits = {t.gfx: t.max_product_rows for t in facts.targets if t.max_product_rows is not None}
    if not limits:
        return skip("no limit is known for these GPUs")
    names = ", ".join(limits)
    if facts.self_tests and all(_has_passed(report.results) for report in facts.self_tests):
        return skip(f"{names}: the self-test found products of 600,000 rows right")
    limit = min(limits.values())
    return _split(f"{names}: products of more than {limit:,} rows are known to be wrong", limit)


def _has_passed(results: Sequence[SelfTestResult]) -> bool:
    found = [result for result in results if result.area == "gemm_many_rows"]
    return bool(found) and all(result.verdict == "passed" for result in found)


def _split(why: str, limit: int) -> Decision:
    return apply(why, settings={"redkiln.max_product_rows": str(limit)})
