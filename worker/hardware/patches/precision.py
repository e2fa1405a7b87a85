"""Choose the type in which `precision: auto` trains, and refuse unsuitable types.

Problem: on ROCm torch claims that every GPU supports bf16. RDNA1, RDNA2 and Vega have no such
arithmetic: it is slow, or the compiler aborts the process.
Applies to: every AMD GPU, by the table of targets.
Effect: `auto` becomes bf16 on RDNA3 and later and on CDNA, fp16 with loss scaling on RDNA1, RDNA2
and Vega, and fp32 for an unknown target; bf16 is refused where the table excludes it.
Evidence: pytorch/pytorch#80410 (the answer is a constant), unslothai/unsloth#7682 (LLVM cannot
select fdot2.bf16); HIP's documentation, hardware_features.rst.
Remove when: torch.cuda.is_bf16_supported() is correct on ROCm.
"""

from worker.hardware.patches.decision import Decision, Scope, apply, skip
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES: tuple[str, ...] = ()


def decide(facts: PatchFacts) -> Decision:
    """Report what the trainer will resolve `auto` to; it uses the same table."""
    if not facts.targets:
        return skip("the target is not in the table; auto is fp32, the only type known to be right")
    parts = []
    for target in facts.targets:
        denied = "" if target.has_bf16 else "; bf16 is refused, whatever torch reports"
        scaled = " with loss scaling" if target.precision == "fp16" else ""
        parts.append(f"{target.gfx}: auto is {target.precision}{scaled}{denied}")
    parts += [
        f"not in {precision}: {verdict.reason}"
        for verdict in facts.verdicts
        for precision in verdict.blocked_precisions
    ]
    return apply("; ".join(parts))
