"""Prevent fragmentation of the GPU's memory, under every name that torch has for the setting.

Problem: batches of changing size fragment torch's memory pool, and a job fails although memory is
free; the setting against this has three names, and each release of torch reads different ones.
Applies to: AMD GPUs with their own memory.
Effect: torch returns unused blocks early. All three variables get the same value: the user's, if
there is one. Expandable segments would help more, but they are never set: with them the first copy
to the GPU hangs, live memory reads as zeros, or the GPU faults (2026-11-23).
Evidence: PyTorch's notes on memory management (garbage_collection_threshold);
pytorch/pytorch#183387 (2.9.1 ignores the new name); against expandable segments:
pytorch/pytorch#192259 (torch 2.12 hangs, two R9700), #187343 (crash), ROCm/legacy-rocm-build#6603
(zeros on gfx1201).
Remove when: torch uses expandable segments by default on ROCm.
"""

from worker.hardware.patches.decision import Decision, Scope, apply, skip
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
KEEPS_OTHERS = True
"""The user's value is copied to the other names, so that every release reads it."""
COLLECTING = "garbage_collection_threshold:0.8"


def decide(facts: PatchFacts) -> Decision:
    """Set one value under every name."""
    given = {facts.user[name] for name in VARIABLES if name in facts.user}
    if len(given) > 1:
        return skip("the variables contradict each other; they are unchanged")
    if given:
        return _set("your value, under every name", given.pop())
    if not facts.gpus or any(gpu.is_apu is not False for gpu in facts.gpus):
        return skip("the GPU shares the host's memory, or may share it; torch's default is kept")
    return _set("unused blocks are returned early, which avoids fragmentation", COLLECTING)


def _set(why: str, value: str) -> Decision:
    return apply(why, environment=dict.fromkeys(VARIABLES, value))
