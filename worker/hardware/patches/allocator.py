"""Prevent fragmentation of the GPU's memory, under every name that torch has for the setting.

Problem: batches of changing size fragment torch's memory pool, and a job fails although memory is
free; the setting against this has three names, and each release of torch reads different ones.
Applies to: AMD GPUs with their own memory.
Effect: torch returns unused blocks early. All three variables get the same value: the user's, if
there is one. Expandable segments would help more. They are set only with a ROCm that the table of
targets names, and on cards where a child has copied, grown, freed and read back memory with them.
The table names no ROCm yet.
Evidence: PyTorch's notes on memory management (garbage_collection_threshold);
pytorch/pytorch#183387 (2.9.1 ignores the new name); against expandable segments:
pytorch/pytorch#192259 (torch 2.12 hangs, two R9700), #187343 and a comment in #177023 (crashes),
ROCm/legacy-rocm-build#6603 (zeros on gfx1201 and gfx1100 with ROCm 7.14), ROCm/rocm-systems#11185
(open in ROCm 10.0); for them: pytorch/pytorch#192814 (open; tests from ROCm 10.0 on). Read
2026-11-24.
Remove when: torch uses expandable segments by default on ROCm.
"""

from worker.hardware.choose import gpu_key
from worker.hardware.facts.versions import parse_version
from worker.hardware.patches.decision import Decision, Scope, apply, skip
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
KEEPS_OTHERS = True
"""The user's value is copied to the other names, so that every release reads it."""
COLLECTING = "garbage_collection_threshold:0.8"
EXPANDING = "expandable_segments:True"


def decide(facts: PatchFacts) -> Decision:
    """Set one value under every name."""
    given = {facts.user[name] for name in VARIABLES if name in facts.user}
    if len(given) > 1:
        return skip("the variables contradict each other; they are unchanged")
    if given:
        return _set("your value, under every name", given.pop())
    if not facts.gpus or any(gpu.is_apu is not False for gpu in facts.gpus):
        return skip("the GPU shares the host's memory, or may share it; torch's default is kept")
    if may_expand(facts):
        probes = [facts.segment_probes.get(gpu_key(gpu)) for gpu in facts.gpus]
        if all(probe is not None and probe.verdict == "passed" for probe in probes):
            return _set("expandable segments passed their probe on these cards", EXPANDING)
    return _set("unused blocks are returned early, which avoids fragmentation", COLLECTING)


def may_expand(facts: PatchFacts) -> bool:
    """Return whether the table names a ROCm from which on expandable segments may be tried."""
    rocm = parse_version(facts.rocm) if facts.rocm else ()
    named = [row.expandable_since for row in facts.targets]
    is_known = bool(facts.gfx_names) and len(named) == len(facts.gfx_names)
    has_own = all(gpu.is_apu is False and gpu.gfx for gpu in facts.gpus)
    is_asked = any(name in facts.user for name in VARIABLES)
    is_recent = all(since is not None and rocm >= parse_version(since) for since in named)
    return is_known and has_own and not is_asked and is_recent


def name_all(value: str) -> dict[str, str]:
    """Return a value under every name that a release of torch may read."""
    return dict.fromkeys(VARIABLES, value)


def _set(why: str, value: str) -> Decision:
    return apply(why, environment=name_all(value))
