"""Row 25: whether kernel and driver are new enough for the cards."""

from worker.hardware.compat.judge import Compatibility, Judged
from worker.hardware.doctor.evidence import Evidence
from worker.hardware.doctor.finding import Finding, Row, bad, ok, unknown
from worker.hardware.doctor.table.components import judge_cards

UPGRADES = {
    "fedora": "sudo dnf upgrade --refresh kernel linux-firmware",
    "arch": "sudo pacman -Syu linux linux-firmware",
    "opensuse": "sudo zypper update kernel-default kernel-firmware-amdgpu",
}
"""Commands of systems whose own kernel is the newest one; others need a choice (docs/host.md)."""

PARTS = ("kernel", "driver")


def check_stack(evidence: Evidence) -> Finding:
    """Row 25: compare kernel and driver with what the cards need."""
    judged = judge_cards(evidence)
    if not judged:
        return unknown("there is no GPU whose architecture is known")
    found = [(card, part) for card in judged.values() for part in card.parts if part.part in PARTS]
    old = [(card, part) for card, part in found if part.verdict == "too old"]
    if old:
        return _judge_old(*old[0], evidence)
    below = [f"{c.gfx}: {p.part} {p.found}, listed from {p.least} on"
             for c, p in found if p.verdict == "may work"]  # fmt: skip
    if below:
        return ok(f"{below[0]}; {found[0][1].why}")
    known = ", ".join(f"{p.part} {p.found}" for _, p in found[:2] if p.found)
    return ok(f"new enough for {', '.join(judged)}: {known}") if known else unknown("not readable")


def _judge_old(card: Compatibility, part: Judged, evidence: Evidence) -> Finding:
    command = find_upgrade(evidence) if part.part == "kernel" else ""
    return bad(
        "slows",
        evidence=f"{part.part} {part.found}; {card.gfx} needs {part.least}",
        cause=f"{part.why} ({part.source})",
        fix=f"{command}   then reboot"
        if command
        else f"a {part.part} from {part.least} on: docs/host.md has the commands for each system",
        command=command,
        on_host=evidence.is_container,
    )


def find_upgrade(evidence: Evidence) -> str:
    """Return the command that installs the newest kernel of this system; empty if unknown."""
    names = evidence.system_names
    return next((UPGRADES[name] for name in names if name in UPGRADES), "")


ROWS = (
    Row(
        25,
        "stack_fits",
        "kernel and driver",
        "page faults or hangs at the first queue; a new card that is not recognised",
        check_stack,
    ),
)
