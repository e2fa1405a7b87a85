"""Avoid hipBLASLt for matrix products where it computes wrong numbers.

Problem: on gfx1201 hipBLASLt before ROCm 7.14 returned products of tall and skinny matrices that
were almost all zeros, without an error; elsewhere torch prefers it for good reason.
Applies to: targets with this defect in the table and a ROCm without the fix, and any GPU whose
self-test found wrong products by hipBLASLt.
Effect: TORCH_BLAS_PREFER_HIPBLASLT=0 and DISABLE_ADDMM_CUDA_LT=1, so that torch uses rocBLAS for
matrix products and linear layers, and ROCBLAS_USE_HIPBLASLT=0, because rocBLAS itself calls
hipBLASLt on gfx12. Slower for some shapes.
Evidence: ROCm/rocm-libraries#5706 (AMD's check of 2026-03-23: wrong with ROCm 7.2, right with the
7.13 of that day) and pytorch/pytorch#189375 (93 % zeros), #8909 and ROCm/ROCm#6413 (page faults);
pytorch/pytorch#150016 (the second variable).
Remove when: ROCm 7.2 is no longer supported.
"""

from worker.hardware.health.verdicts import AVOID_HIPBLASLT
from worker.hardware.patches.decision import Decision, Scope, apply, skip, skip_unknown
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES = (
    "TORCH_BLAS_PREFER_HIPBLASLT",
    "TORCH_BLAS_PREFER_CUBLASLT",
    "DISABLE_ADDMM_CUDA_LT",
    "ROCBLAS_USE_HIPBLASLT",
)
DEFECT = "hipblaslt_wrong"


def decide(facts: PatchFacts) -> Decision:
    """Disable hipBLASLt where it is known or found to be wrong; otherwise keep torch's choice."""
    reason = find_fault(facts)
    if reason is not None:
        return apply(reason, environment=AVOID_HIPBLASLT)
    if not facts.targets:
        return skip_unknown()
    if not any(target.has_hipblaslt for target in facts.targets):
        return skip("hipBLASLt has no kernels for these GPUs; torch uses rocBLAS anyway")
    return skip("no fault of hipBLASLt is known here; torch chooses")


def find_fault(facts: PatchFacts) -> str | None:
    """Return what is wrong with hipBLASLt on these GPUs; None if nothing is known."""
    for target in facts.targets:
        for defect in target.defects:
            if defect.code == DEFECT and defect.affects(facts.rocm):
                return f"{target.gfx}: {defect.text.rstrip('.')}"
    wrong = [verdict.reason for verdict in facts.verdicts if verdict.action == "switch_blas"]
    return wrong[-1] if wrong else None
