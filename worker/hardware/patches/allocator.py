"""Keep the GPU's memory from falling to pieces, whatever torch calls the setting today.

Problem: batches of changing size leave torch's memory pool in pieces, and a job fails with memory
free; the setting against it has three spellings, of which each release heeds others.
Applies to: AMD GPUs with memory of their own. Growing segments work on ROCm from torch 2.12;
before that only an early return of unused blocks helps.
Effect: all three spellings get one value: the user's, if there is one.
Evidence: pytorch/pytorch#177974 and #173330 (expandable segments on ROCm), #183387 (the new
spelling unheeded in 2.9.1); PyTorch's notes on memory management (garbage_collection_threshold).
Remove when: torch grows segments by default on ROCm.
"""

from worker.hardware.patches.decision import Decision, Scope, apply, skip
from worker.hardware.patches.facts import PatchFacts, parse_version

SCOPE: Scope = "rocm"
VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
KEEPS_OTHERS = True
"""The user's value is given to the other spellings, so that it counts in every release."""
FIRST_EXPANDABLE = (2, 12)
EXPANDABLE = "expandable_segments:True"
COLLECTING = "garbage_collection_threshold:0.8"


def decide(facts: PatchFacts) -> Decision:
    """One value for every spelling."""
    given = {facts.user[name] for name in VARIABLES if name in facts.user}
    if len(given) > 1:
        return skip("the spellings contradict each other; they are left as they are")
    if given:
        return _set("your value, in every spelling", given.pop())
    if not facts.gpus or any(gpu.is_apu is not False for gpu in facts.gpus):
        return skip("the memory is the host's, or it is not known whose; torch's default is kept")
    if facts.torch is None or parse_version(facts.torch) < FIRST_EXPANDABLE:
        return _set("before torch 2.12 segments cannot grow on ROCm", COLLECTING)
    return _set("segments that grow leave no pieces", EXPANDABLE)


def _set(why: str, value: str) -> Decision:
    return apply(why, environment=dict.fromkeys(VARIABLES, value))
