"""Make the same choice as `hipblaslt` in torch itself.

Problem: torch reads the variables once, at its first matrix product; a program that sets the
library itself, or that is started without the variables, gets hipBLASLt again.
Applies to: GPUs to which `hipblaslt` applies.
Effect: torch.backends.cuda.preferred_blas_library("cublas"), which is rocBLAS on ROCm.
Evidence: as for `hipblaslt`; the documentation of torch.backends.cuda.preferred_blas_library.
Remove when: `hipblaslt` is removed.
"""

from worker.hardware.patches.decision import Decision, Scope, apply, skip
from worker.hardware.patches.facts import PatchFacts
from worker.hardware.patches.hipblaslt import find_fault

SCOPE: Scope = "rocm"
VARIABLES = ("TORCH_BLAS_PREFER_HIPBLASLT", "TORCH_BLAS_PREFER_CUBLASLT")


def decide(facts: PatchFacts) -> Decision:
    """Use rocBLAS where hipBLASLt is wrong."""
    reason = find_fault(facts)
    if reason is None:
        return skip("no fault of torch's own choice is known")
    return apply(reason, settings={"torch.backends.cuda.preferred_blas_library": "cublas"})
