"""The same choice as `hipblaslt`, made in torch itself.

Problem: the variables are read once, when torch first multiplies; whoever sets the library in a
program, or starts one without the variables, gets hipBLASLt again.
Applies to: where `hipblaslt` applies.
Effect: torch.backends.cuda.preferred_blas_library("cublas"), which is rocBLAS on ROCm.
Evidence: as of `hipblaslt`; the documentation of torch.backends.cuda.preferred_blas_library.
Remove when: `hipblaslt` is removed.
"""

from worker.hardware.patches.decision import Decision, Scope, apply, skip
from worker.hardware.patches.facts import PatchFacts
from worker.hardware.patches.hipblaslt import find_fault

SCOPE: Scope = "rocm"
VARIABLES = ("TORCH_BLAS_PREFER_HIPBLASLT", "TORCH_BLAS_PREFER_CUBLASLT")


def decide(facts: PatchFacts) -> Decision:
    """RocBLAS where hipBLASLt is wrong."""
    reason = find_fault(facts)
    if reason is None:
        return skip("nothing is known to be wrong with torch's own choice")
    return apply(reason, settings={"torch.backends.cuda.preferred_blas_library": "cublas"})
