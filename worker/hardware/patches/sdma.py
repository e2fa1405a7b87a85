"""Copy with shaders instead of copy engines where these are known to corrupt or to hang.

Problem: on some APUs the copy engines (SDMA) hang or copy wrongly.
Applies to: APUs for which the table of targets names such a defect (`bad_copies`). Nothing else:
the engines are faster, and leave the compute units free.
Effect: HSA_ENABLE_SDMA=0.
Evidence: AMD's documentation of HSA_ENABLE_SDMA names it as a means to tell SDMA faults from
others; no row of the table has the defect at this time.
Remove when: no report of it has come for two releases.
"""

from worker.hardware.patches.decision import Decision, Scope, apply, skip
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES = ("HSA_ENABLE_SDMA",)
DEFECT = "bad_copies"


def decide(facts: PatchFacts) -> Decision:
    """Off for an APU that is known to copy wrongly."""
    known = {d.code: d.text for target in facts.targets for d in target.defects}
    is_apu = any(gpu.is_apu for gpu in facts.gpus)
    if is_apu and DEFECT in known:
        return apply(known[DEFECT], environment={"HSA_ENABLE_SDMA": "0"})
    if is_apu:
        return skip("nothing is known to be wrong with the copies of this APU")
    return skip("only some APUs copy wrongly; the engines of cards are left on")
