"""`python -m worker.hardware doctor`: find what prevents training, and how to fix it.

Exit status: 0 if there are no problems, 1 if something slows training, 2 if something prevents it.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console

from redkiln.cli.view.doctor_page import print_report
from redkiln.views.doctor import EXIT_STATUSES, DoctorReport
from worker.hardware.children import SOURCE_DIR
from worker.hardware.doctor.bundle import write_bundle
from worker.hardware.doctor.cures.book import CureBook, remember
from worker.hardware.doctor.cures.carry_out import carry_out
from worker.hardware.doctor.cures.cures import Cure, find_cures
from worker.hardware.doctor.evidence import Evidence, Torch
from worker.hardware.doctor.examine import examine
from worker.hardware.doctor.gather import SystemPaths, ask_torch, gather, read_torch
from worker.hardware.doctor.trials.trials import run_trials
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
        "--test",
        action="store_true",
        help="also try a copy, a product, a convolution and attention on each free GPU, and an "
        "all-reduce, each in a process with a time limit, and compare the numbers with the CPU's",
    )
    parser.add_argument(
        "--fix", action="store_true", help="carry out the safe fixes, after asking for each"
    )
    parser.add_argument("--yes", action="store_true", help="with --fix: do not ask")
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
    book = CureBook(settings.worker_dir.absolute())
    report = _examine(evidence, book)
    if arguments.test:
        trials = run_trials(evidence, environ=os.environ, lock_dir=settings.lock_dir, say=_say)
        report = report.model_copy(update={"trials": trials})
    if arguments.json:
        sys.stdout.write(report.model_dump_json(indent=2) + "\n")
    else:
        _print(report, copied=arguments.topology or arguments.drm)
    if arguments.bundle is not None:
        _write_bundle(arguments.bundle, report, evidence, settings)
    if arguments.fix:
        report = _fix(arguments, settings, evidence, report)
    return EXIT_STATUSES[report.verdict]


def _examine(evidence: Evidence, book: CureBook) -> DoctorReport:
    """Examine, and name first what has cured the same problem before."""
    report = examine(evidence)
    with suppress(OSError):  # a doctor that may not write still reports
        book.confirm(report)
    return report.model_copy(update={"remembered": remember(report.first, book.load())})


def _fix(
    arguments: argparse.Namespace,
    settings: WorkerSettings,
    evidence: Evidence,
    report: DoctorReport,
) -> DoctorReport:
    """Carry out what is safe after asking, check again, and return the new report."""
    folders = [*find_system_paths(settings).cache_dirs, _extensions_dir()]
    cures = find_cures(evidence, report, source_dir=SOURCE_DIR, cache_dirs=folders)
    if not cures:
        left = report.first is not None
        _say(f"--fix can do nothing {'about this: see the fixes above.' if left else 'here.'}")
        return report
    if not (arguments.yes or sys.stdin.isatty()):
        for cure in cures:
            _say(f"--fix would {cure.title}")
        _say("Nothing was changed. Run it in a terminal to be asked, or add --yes.")
        return report
    book = CureBook(settings.worker_dir.absolute())
    done = carry_out(cures, book=book, ask=_agree if arguments.yes else _ask, say=_say)
    if not done:
        return report
    again = _examine(find_evidence(arguments, settings), book)
    _report_cures(done, again)
    return again


def _report_cures(done: Sequence[Cure], again: DoctorReport) -> None:
    fine = {check.row for check in again.checks if check.verdict == "ok"}
    for cure in done:
        if cure.row == 0 or cure.row in fine:
            _say(f"Cured: {cure.title}")
        elif cure.afterwards:
            _say(f"Done: {cure.title}. It takes effect with: {cure.afterwards}")
        else:
            _say(f"Done, but row {cure.row} is not in order yet: {cure.title}")


def _ask(title: str) -> bool:
    sys.stderr.write(f"{title[0].upper()}{title[1:]}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _agree(title: str) -> bool:
    _say(f"{title[0].upper()}{title[1:]}")
    return True


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _extensions_dir() -> Path:
    named = os.environ.get("TORCH_EXTENSIONS_DIR")
    return Path(named) if named else Path.home() / ".cache" / "torch_extensions"


def find_evidence(arguments: argparse.Namespace, settings: WorkerSettings) -> Evidence:
    """Examine this machine, or the copies that the arguments name."""
    return gather(
        find_system_paths(settings, topology_dir=arguments.topology, drm_dir=arguments.drm),
        environment=os.environ,
        torch=_find_torch(settings, arguments.inventory),
    )


def find_system_paths(
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
