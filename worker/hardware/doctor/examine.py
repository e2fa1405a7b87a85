"""All rows for one machine: first what prevents training, then what slows it, then the rest."""

from redkiln.views.doctor import DoctorReport
from redkiln.views.hardware import DoctorCheck
from worker.hardware.doctor import (
    build,
    caches,
    cards,
    device_nodes,
    driver,
    exits,
    libraries,
    links,
    memory,
    parts,
)
from worker.hardware.doctor.evidence import Evidence, name_of
from worker.hardware.doctor.finding import Finding, Row, ok
from worker.hardware.doctor.first import fold, mark_hidden
from worker.hardware.doctor.gather import versions_of
from worker.hardware.doctor.table import stack_row
from worker.hardware.doctor.table.components import list_components
from worker.hardware.health.selftest_words import keep_worst

ROOMS = (
    build, device_nodes, driver, cards, caches, memory, exits, libraries, links, parts, stack_row,
)  # fmt: skip

ROWS: tuple[Row, ...] = tuple(
    sorted((row for room in ROOMS for row in room.ROWS), key=lambda row: row.number)
)
"""The table of known failures, whose sources docs/doctor.md lists."""

WITHOUT_GPU = (2, 17, 23)
"""Rows that also apply to a machine without an AMD GPU."""

_RANKS = {("bad", "blocks"): 0, ("bad", "slows"): 1, ("bad", "note"): 2}
_REST = {"unknown": 3, "ok": 4}


def examine(evidence: Evidence) -> DoctorReport:
    """Judge a machine by every row that applies to it."""
    rows = [row for row in ROWS if evidence.has_amd_gpu or row.number in WITHOUT_GPU]
    checks = fold([OVERVIEW.examine(evidence), *(row.examine(evidence) for row in rows)])
    checks = mark_hidden(checks, is_container=evidence.is_container)
    return DoctorReport(
        at=evidence.at,
        hostname=evidence.hostname,
        versions=versions_of(evidence),
        checks=sorted(checks, key=_rank),
        components=list_components(evidence),
        gpus=list(evidence.gpu_readings),
        self_tests=[keep_worst(report) for report in evidence.self_tests],
    )


def summarise(evidence: Evidence) -> Finding:
    """Summarise what there is to train on."""
    gpus, torch = evidence.gpus, evidence.torch
    if gpus:
        names = ", ".join(f"{name_of(gpu)}{f' ({gpu.name})' if gpu.name else ''}" for gpu in gpus)
        usable = len(evidence.usable_gpus)
        return ok(f"{names}; {usable} of {len(gpus)} can be opened here", gpus=len(gpus))
    if evidence.pci_gpus:
        return ok(f"an AMD card at {', '.join(evidence.pci_gpus)} without a driver", gpus=0)
    if evidence.is_wsl and evidence.dxg:
        return ok("WSL2 with /dev/dxg; only torch can show which GPU", gpus=0)
    if torch is not None and torch.cuda and torch.num_devices:
        return ok(f"no AMD GPU; torch opens {torch.num_devices} over CUDA {torch.cuda}", gpus=0)
    return ok(
        "no AMD GPU on this machine: jobs train on the CPU, and only checks for the CPU are made",
        gpus=0,
    )


OVERVIEW = Row(0, "gpus", "what there is to train on", "", summarise)


def _rank(check: DoctorCheck) -> tuple[int, int]:
    if check.row == OVERVIEW.number:
        return (-1, 0)
    return (_RANKS.get((check.verdict, check.severity), _REST.get(check.verdict, 4)), check.row)
