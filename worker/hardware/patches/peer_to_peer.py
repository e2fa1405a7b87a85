"""Keep RDNA4 cards from writing to each other's memory over PCIe.

Problem: with four R9700 direct writes between the cards hang the whole host, which then resets. A
trial cannot find this, because it would hang the host too.
Applies to: jobs on several GPUs of which one is RDNA4.
Effect: NCCL_P2P_DISABLE=1, for the trial of the links too: data go through the host's memory.
Evidence: ROCm/rocm-systems#11348 (ROCm 10.0, open; no hang without direct writes; read 2026-11-23).
Remove when: that issue is closed with a fix in a released driver.
"""

from worker.hardware.patches.decision import Decision, Scope, apply, skip
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES = ("NCCL_P2P_DISABLE",)


def decide(facts: PatchFacts) -> Decision:
    """Disable direct writes between RDNA4 cards."""
    if len(facts.gpus) < 2:
        return skip("the job uses one GPU")
    names = [target.gfx for target in facts.targets if target.family == "rdna4"]
    if not names:
        return skip("no hang of the host is known for these GPUs; the trial of the links decides")
    return apply(
        f"{', '.join(names)}: direct writes over PCIe have hung the whole host",
        environment={"NCCL_P2P_DISABLE": "1"},
    )
