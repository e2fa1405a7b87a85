"""Judges the overrides of GPU architectures that the user has set, as the patch would."""

from collections.abc import Mapping

from redkiln.views.hardware import GpuFacts
from worker.hardware.doctor.evidence import Evidence, name_of
from worker.hardware.doctor.finding import Finding, bad
from worker.hardware.patches.facts import PatchFacts
from worker.hardware.patches.gfx_override import find_candidate

OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"


def find_overrides(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the overrides of GPU architectures: the global one and those of single nodes."""
    return {name: value for name, value in sorted(environment.items()) if name.startswith(OVERRIDE)}


def judge_overrides(evidence: Evidence) -> Finding | None:
    """Return what is wrong with the overrides that are set; None if there is nothing."""
    overrides = find_overrides(evidence.environment)
    if not overrides or not evidence.gpus:
        return None
    changed = [gpu for gpu in evidence.gpus if _find_value(gpu, overrides) is not None]
    if not changed or any(not _is_known(gpu, overrides, evidence) for gpu in changed):
        return _refuse(
            overrides,
            evidence,
            why="a global override breaks GPUs that do not need it, and newer runtimes reject it "
            "(hsa_init: OUT_OF_RESOURCES); Redkiln sets one for a GPU that needs it, after a probe",
        )
    for gpu in changed:
        probe = evidence.override_probes.get(gpu.gfx or "")
        if probe is None:
            return _ask_for_probe(gpu, overrides, evidence)
        if probe.verdict != "passed":
            return _refuse(
                overrides,
                evidence,
                why=f"{name_of(gpu)} failed the override's probe: {probe.detail}",
            )
    return None


def describe_overrides(evidence: Evidence) -> str:
    """Describe the overrides that are set, for a machine on which nothing is wrong with them."""
    overrides = find_overrides(evidence.environment)
    return (
        f"{_list(overrides)} is set and has passed its probe" if overrides else "no override is set"
    )


def _find_value(gpu: GpuFacts, overrides: Mapping[str, str]) -> str | None:
    """Return the value that the runtime uses for a GPU: its node's own, or the global one.

    Source: libhsakmt topology.c.
    """
    return overrides.get(f"{OVERRIDE}_{gpu.node}") or overrides.get(OVERRIDE)


def _is_known(gpu: GpuFacts, overrides: Mapping[str, str], evidence: Evidence) -> bool:
    """Whether the patch would use the same value, if its probe passes."""
    torch = evidence.torch
    facts = PatchFacts(
        backend="rocm",
        gpus=(gpu,),
        torch=torch.version if torch else None,
        rocm=torch.rocm_release if torch else None,
        arch_list=torch.arch_list if torch else (),
    )
    candidate = find_candidate(gpu, facts)
    return candidate is not None and [_find_value(gpu, overrides)] == list(candidate.values())


def _ask_for_probe(gpu: GpuFacts, overrides: Mapping[str, str], evidence: Evidence) -> Finding:
    return bad(
        "note",
        evidence=f"{_list(overrides)} is set, the known override for {name_of(gpu)}, but no probe "
        "has shown that it computes correctly here",
        cause="Redkiln does not probe an override that is set already",
        fix=_unset(overrides, evidence) + "   Jobs then set it themselves after its probe",
        command=unset_command(overrides, evidence),
        on_host=evidence.is_container,
    )


def _refuse(overrides: Mapping[str, str], evidence: Evidence, *, why: str) -> Finding:
    return bad(
        "blocks",
        evidence=f"{_list(overrides)} is set for every program here",
        cause=why,
        fix=_unset(overrides, evidence),
        command=unset_command(overrides, evidence),
        on_host=evidence.is_container,
    )


def _unset(overrides: Mapping[str, str], evidence: Evidence) -> str:
    place = "   (and remove it from worker.env and compose.yaml)" if evidence.is_container else ""
    return f"unset {' '.join(overrides)}{place}"


def unset_command(overrides: Mapping[str, str], evidence: Evidence) -> str:
    """Return the command that removes the overrides from this shell, or from a container."""
    if not evidence.is_container:
        return f"unset {' '.join(overrides)}"
    return f"sed -i '/^{OVERRIDE}/d' worker.env && docker compose up --detach worker"


def _list(overrides: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in overrides.items())
