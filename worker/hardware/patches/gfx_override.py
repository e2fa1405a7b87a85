"""Let a GPU use the kernels of another target with the same instruction set.

Problem: torch's classic wheels have no kernels for some targets whose instruction set another
target shares, and then every operation fails with "invalid device function".
Applies to: targets with a rule in the table (such as gfx1031 as gfx1030) if torch has the other
target's kernels and not the GPU's own; never if torch has its own.
Effect: HSA_OVERRIDE_GFX_VERSION_N for this GPU (KFD node N) alone, after a child with this setting
returned right numbers; the global variable is never set, because it would break other GPUs.
Evidence: ROCm/ROCm#1756, #1797, #2353 (gfx1031 and gfx1032 run as gfx1030); ROCm/ROCm#887 and
unslothai/unsloth#8480 (crashes where the rule is broken); libhsakmt topology.c (per node).
Remove when: every wheel that the worker supports has kernels for every target in the table.
"""

from redkiln.views.hardware import GpuFacts
from worker.hardware.facts.targets import find_target, find_wheel_target
from worker.hardware.override import variable_of
from worker.hardware.patches.decision import Decision, Scope, apply, refuse, skip
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES = ("HSA_OVERRIDE_GFX_VERSION*",)


def decide(facts: PatchFacts) -> Decision:
    """Override each GPU that needs it and has passed the probe."""
    decisions = [_decide_gpu(gpu, facts) for gpu in facts.gpus if gpu.gfx]
    if not decisions:
        return skip("no file reports the GPU's target, so no rule can be found")
    outcomes = {decision.outcome for decision in decisions}
    why = "; ".join(dict.fromkeys(decision.why for decision in decisions))
    environment = {name: v for decision in decisions for name, v in decision.environment.items()}
    if "applied" in outcomes:
        return apply(why, environment=environment)
    return refuse(why) if "refused" in outcomes else skip(why)


def find_candidate(gpu: GpuFacts, facts: PatchFacts) -> dict[str, str] | None:
    """Return the override to probe before it is set; None if the GPU never gets one."""
    target = find_target(gpu.gfx) if gpu.gfx else None
    if target is None or gpu.node is None or _find_objection(gpu, facts) is not None:
        return None
    assert target.override.value is not None, "otherwise there is an objection"
    return {variable_of(gpu.node): target.override.value}


def _decide_gpu(gpu: GpuFacts, facts: PatchFacts) -> Decision:
    assert gpu.gfx is not None
    objection = _find_objection(gpu, facts)
    if objection is not None:
        return objection
    candidate = find_candidate(gpu, facts)
    assert candidate is not None
    text = ", ".join(f"{name}={value}" for name, value in candidate.items())
    probe = facts.probes.get(gpu.gfx)
    if probe is None:
        return refuse(f"{gpu.gfx}: {text} has not passed its probe on this GPU{_remedy(facts)}")
    if probe.verdict != "passed":
        return refuse(f"{gpu.gfx} with {text}: {probe.detail}{_remedy(facts)}")
    target = find_target(gpu.gfx)
    assert target is not None
    return apply(f"{gpu.gfx}: {target.override.why}; {probe.detail}", environment=candidate)


def _find_objection(gpu: GpuFacts, facts: PatchFacts) -> Decision | None:
    """Return why not even a probe is made; None if one is."""
    target = find_target(gpu.gfx) if gpu.gfx else None
    if target is None:
        return refuse(f"{gpu.gfx} is not in the table of targets, so no substitute is known")
    if not facts.arch_list:
        return skip("torch does not report which targets it has kernels for")
    if gpu.gfx in facts.arch_list:
        return refuse(f"torch has kernels for {gpu.gfx}, so an override could only break it")
    rule = target.override
    if rule.value is None:
        return refuse(f"{gpu.gfx}: {rule.why}")
    if rule.needs not in facts.arch_list:
        return refuse(
            f"this torch has no kernels for {gpu.gfx} nor for its substitute {rule.needs}"
            f"{_remedy(facts)}"
        )
    if any(name.startswith(VARIABLES[0].rstrip("*")) for name in facts.user):
        return skip("an override is set already")
    if gpu.node is None:
        return refuse(f"{gpu.gfx} has no KFD node here, and an override needs one")
    return None


def _remedy(facts: PatchFacts) -> str:
    rows = (find_wheel_target(gfx) for gfx in facts.gfx_names)
    wheels = [row.gfx for row in rows if row is not None and row.gfx not in facts.arch_list]
    if not wheels:
        return ""
    if not facts.is_therock:
        return "; use AMD's wheels of ROCm 10, which have kernels for " + ", ".join(wheels)
    extras = ",".join(f"device-{gfx}" for gfx in dict.fromkeys(wheels))
    return f'; install "torch[{extras}]" instead'
