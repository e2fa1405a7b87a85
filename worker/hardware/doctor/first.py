"""What to do first: rows that only follow from another are folded under it.

A missing driver makes nine rows red or unknown. Only its own row says what to do.
"""

from collections.abc import Mapping, Sequence

from redkiln.views.hardware import DoctorCheck

NODES = (3, 4, 5, 22)
TORCH = (24, 2)
FOLLOWS: Mapping[int, tuple[int, ...]] = {
    1: (*TORCH, *NODES),
    2: (24,),
    4: (3, 22),
    5: (3, 4, 22),
    6: (*NODES, *TORCH, 7, 1),
    8: NODES,
    11: NODES,
    12: NODES,
    16: NODES,
    19: (*NODES, *TORCH, 1),
    20: NODES,
    21: NODES,
}
"""For each row, the rows that explain it if they are bad, the most likely first."""

HOST_COMMANDS: Mapping[int, str] = {
    9: "sudo dmesg | grep -i amdgpu",
    10: "sudo dmesg | grep -i amdgpu",
    12: "sudo dmesg | grep -i atomics",
    21: "cat /proc/cmdline",
}
"""Rows whose evidence a container cannot see, with the host's command that shows it."""


def fold(checks: Sequence[DoctorCheck]) -> list[DoctorCheck]:
    """Mark the rows that only follow from another."""
    roots = {check.row for check in checks if check.verdict == "bad" and check.severity == "blocks"}
    return [
        check.model_copy(update={"follows": root})
        if (root := _find_root(check, roots)) is not None
        else check
        for check in checks
    ]


def mark_hidden(checks: Sequence[DoctorCheck], *, is_container: bool) -> list[DoctorCheck]:
    """Mark the rows that a container cannot see, with the host's command."""
    return [
        check.model_copy(
            update={"is_hidden": True, "on_host": True, "command": HOST_COMMANDS[check.row]}
        )
        if is_container and check.verdict == "unknown" and check.row in HOST_COMMANDS
        else check
        for check in checks
    ]


def _find_root(check: DoctorCheck, roots: set[int]) -> int | None:
    if check.verdict == "ok":
        return None
    return next((row for row in FOLLOWS.get(check.row, ()) if row in roots), None)
