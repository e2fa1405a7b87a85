"""`python -m worker.hardware doctor`: find what prevents training, and how to fix it.

Exit status: 0 if there are no problems, 1 if something slows training, 2 if something prevents it.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console

from redkiln.cli.view.doctor_page import print_report
from redkiln.views.doctor import EXIT_STATUSES
from redkiln.views.hardware import DoctorReport
from worker.hardware.doctor.bundle import write_bundle
from worker.hardware.doctor.evidence import Evidence, Torch
from worker.hardware.doctor.examine import examine
from worker.hardware.doctor.gather import SystemPaths, ask_torch, gather, read_torch
from worker.hardware.doctor.user import become, find_worker_user
from worker.settings import WorkerSettings

PIPE_WIDTH = 200
"""Width of output that is not a terminal; wide, so that nothing is cut off."""

MIOPEN_PLACE = "MIOPEN_USER_DB_PATH"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where to look and how to report."""
    parser.epilog = (
        "Exit status: 0 if there are no problems, 1 if training is slowed, 2 if it is prevented."
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--bundle", type=Path, metavar="FILE", help="write a .tar.gz for bug reports, no secrets"
    )
    parser.add_argument(
        "--topology", type=Path, metavar="DIR", help="read the GPUs from a copied KFD topology"
    )
    parser.add_argument("--drm", type=Path, metavar="DIR", help="read the cards from a copy")
    parser.add_argument(
        "--inventory",
        type=Path,
        metavar="FILE",
        help="output of `python -m worker.trainer.inventory`, to be used instead of asking torch",
    )


def run(arguments: argparse.Namespace) -> int:
    """Examine the machine, print the report, and return the exit status."""
    if (user := find_worker_user(Path("/"), os.environ, uid=os.getuid())) is not None:
        become(user)
    try:
        settings = WorkerSettings()
    except ValidationError as error:
        sys.stderr.write(f"The worker cannot start, because its settings are invalid:\n{error}\n")
        return EXIT_STATUSES["blocked"]
    evidence = find_evidence(arguments, settings)
    report = examine(evidence)
    if arguments.json:
        sys.stdout.write(report.model_dump_json(indent=2) + "\n")
    else:
        _print(report, copied=arguments.topology or arguments.drm)
    if arguments.bundle is not None:
        _write_bundle(arguments.bundle, report, evidence, settings)
    return EXIT_STATUSES[report.verdict]


def find_evidence(arguments: argparse.Namespace, settings: WorkerSettings) -> Evidence:
    """Examine this machine, or the copies that the arguments name."""
    return gather(
        find_places(settings, topology_dir=arguments.topology, drm_dir=arguments.drm),
        environment=os.environ,
        torch=_find_torch(settings, arguments.inventory),
    )


def find_places(
    settings: WorkerSettings, *, topology_dir: Path | None = None, drm_dir: Path | None = None
) -> SystemPaths:
    """Return the folders of this worker that the doctor examines."""
    miopen = os.environ.get(MIOPEN_PLACE)
    caches = [settings.resolved_kernel_cache_dir, *([Path(miopen)] if miopen else [])]
    worker_dir = settings.worker_dir.absolute()
    return SystemPaths(
        topology_dir=topology_dir or settings.topology_dir,
        drm_dir=drm_dir or settings.drm_dir,
        worker_dir=worker_dir,
        cache_dirs=[path.expanduser().absolute() for path in caches],
        lock_dir=settings.lock_dir,
        self_test_dir=settings.selftest_dir.absolute(),
    )


def _find_torch(settings: WorkerSettings, inventory: Path | None) -> Torch:
    if inventory is not None:
        return read_torch(json.loads(inventory.read_text()))
    return ask_torch(settings.inventory_command, environment=os.environ)


def _print(report: DoctorReport, *, copied: Path | None) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
    print_report(console, report)
    if copied is not None:
        console.print(
            f"\nThe GPUs are read from {copied}; everything else is this machine's.",
            style="dim",
            markup=False,
            soft_wrap=True,
        )


def _write_bundle(
    path: Path, report: DoctorReport, evidence: Evidence, settings: WorkerSettings
) -> None:
    write_bundle(
        path,
        report,
        evidence,
        topology_dir=settings.topology_dir,
        drm_dir=settings.drm_dir,
        secrets=[key] if (key := settings.load_key()) else [],
    )
    sys.stderr.write(f"Wrote {path}. Check its content before you send it.\n")
