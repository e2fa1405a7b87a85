"""Compile Triton's kernels without buffer instructions where these write nothing.

Problem: on gfx101x every kernel that Triton compiles with its default settings starts without an
error and writes nothing, so compiled models learn from zeros.
Applies to: RDNA1.
Effect: AMDGCN_USE_BUFFER_OPS=0. Triton's and Inductor's caches do not include it in their keys, so
`kernel_caches` uses separate folders.
Evidence: unslothai/unsloth#11614 (RX 5700 XT, ROCm 10.2: zeros, and NaN from kernels cached before;
read 2026-11-23).
Remove when: Triton is right on gfx1010 with its default settings.
"""

from worker.hardware.patches.decision import Decision, Scope, apply, skip, skip_unknown
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES = ("AMDGCN_USE_BUFFER_OPS",)


def decide(facts: PatchFacts) -> Decision:
    """Disable the instructions on RDNA1."""
    if not facts.targets:
        return skip_unknown()
    if not has_wrong_buffers(facts):
        return skip("no fault of Triton's buffer instructions is known here")
    return apply(
        f"{', '.join(facts.gfx_names)}: kernels with buffer instructions write nothing",
        environment={"AMDGCN_USE_BUFFER_OPS": "0"},
    )


def has_wrong_buffers(facts: PatchFacts) -> bool:
    """Return whether a GPU's kernels with buffer instructions write nothing."""
    return any(target.family == "rdna1" for target in facts.targets)
