"""Let attention use the fused kernels that AMD calls experimental on some targets.

Problem: on targets whose AOTriton kernels are called experimental, torch computes attention with
plain matrix products, whose memory grows with the square of the sequence length.
Applies to: targets that the table marks as experimental and, before torch 2.13, all RDNA targets
with such kernels; not where the table knows them to be wrong (gfx1150, gfx1151), and not if a
self-test found wrong attention.
Effect: TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL=1, which torch reads once, at the first attention.
Evidence: PyTorch's aten/src/ATen/native/transformers/cuda/sdp_utils.cpp; ROCm/TheRock#1925 (targets
without any kernel); ROCm/aotriton#54, #179 and #183, pytorch/pytorch#189849 (NaN and wrong numbers
on gfx1150 and gfx1151; read 2026-11-23). The worker's self-test compares the results with float64,
for head sizes from 32 to 512 and up to 4,096 tokens.
Remove when: torch no longer has this switch, or no target in the table needs it.
"""

from worker.hardware.facts.targets import Target
from worker.hardware.facts.versions import parse_version
from worker.hardware.patches.decision import Decision, Scope, apply, refuse, skip, skip_unknown
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES = ("TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL",)
DEFECT = "fused_attention_wrong"
FIRST_IN_TABLE = (2, 13)


def decide(facts: PatchFacts) -> Decision:
    """Enable the kernels if there are any and nothing is known against them."""
    if not facts.targets:
        return skip_unknown()
    names = ", ".join(facts.gfx_names)
    if not any(_needs_switch(target, facts.torch) for target in facts.targets):
        if any(target.aotriton != "none" for target in facts.targets):
            return skip(f"{names}: fused attention needs no switch")
        return skip(f"{names}: there are no fused attention kernels")
    wrong = find_fault(facts) or _find_defect(facts)
    if wrong is not None:
        return refuse(f"{names}: {wrong}")
    return apply(
        f"{names}: this switch enables fused attention; the self-test checks its numbers",
        environment={"TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL": "1"},
    )


def find_fault(facts: PatchFacts) -> str | None:
    """Return what a self-test found wrong with fused attention; None if nothing."""
    wrong = [verdict.reason for verdict in facts.verdicts if verdict.has_plain_attention]
    return wrong[-1] if wrong else None


def _find_defect(facts: PatchFacts) -> str | None:
    """Return what the table knows against these kernels in this ROCm; None if nothing."""
    known = (d for target in facts.targets for d in target.defects if d.code == DEFECT)
    return next((d.text.rstrip(".") for d in known if d.affects(facts.rocm)), None)


def _needs_switch(target: Target, torch: str | None) -> bool:
    """Return whether the switch is needed; before torch 2.13 all RDNA kernels were experimental."""
    is_early = torch is not None and parse_version(torch) < FIRST_IN_TABLE
    is_listed_later = target.aotriton == "yes" and target.family.startswith("rdna")
    return target.aotriton == "experimental" or (is_early and is_listed_later)
