"""Kernel, driver, firmware, ROCm and torch, each with what the cards of the machine need."""

from collections.abc import Sequence

from redkiln.views.hardware import Component
from worker.hardware.compat.judge import BAD, Compatibility, Judged, judge
from worker.hardware.compat.machine import rocm_of, stack_of
from worker.hardware.doctor.evidence import Evidence
from worker.hardware.facts.targets import find_target

ORDER = ("kernel", "driver", "firmware", "ROCm", "torch", "Python")


def judge_cards(evidence: Evidence) -> dict[str, Compatibility]:
    """Judge each architecture that jobs would use: those of discrete cards, or else all."""
    gpus = evidence.discrete_gpus or evidence.gpus
    addresses = {gpu.gfx: gpu.pci_address for gpu in gpus if gpu.gfx}
    addresses = addresses or dict.fromkeys(evidence.pci_targets)
    return {
        gfx: judge(gfx, stack_of(evidence, pci_address=address))
        for gfx, address in addresses.items()
        if find_target(gfx) is not None
    }


def list_components(evidence: Evidence) -> list[Component]:
    """Return each part with the strictest need of the cards; without a card, only the versions."""
    judged = judge_cards(evidence)
    if not judged:
        return _list_found(evidence)
    found = [part for card in judged.values() for part in card.parts]
    return [_join(name, parts) for name in ORDER if (parts := [p for p in found if p.part == name])]


def _join(name: str, parts: Sequence[Judged]) -> Component:
    worst = max(parts, key=lambda part: (part.verdict in BAD, part.verdict == "may work"))
    return Component(
        name=name,
        found=worst.found,
        needed=worst.least,
        verdict=worst.verdict,
        why=worst.why,
        source=worst.source,
    )


def _list_found(evidence: Evidence) -> list[Component]:
    torch = evidence.torch
    found = {
        "kernel": evidence.kernel_release,
        "driver": evidence.driver_version or ("of the kernel" if evidence.has_driver else None),
        "ROCm": rocm_of(evidence),
        "torch": torch.version if torch else None,
    }
    return [Component(name=name, found=version) for name, version in found.items() if version]
