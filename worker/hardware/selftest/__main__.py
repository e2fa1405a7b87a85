"""`python -m worker.hardware.selftest`: check whether a device computes right numbers.

Exit status: 0 if all numbers are right, 1 if some are wrong (the report names them), 2 if the test
could not run (the report's `cause` says why). With `--json` stdout contains only the report, and
stderr names each test before it runs, so that a crash shows which test caused it.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import torch
from rich.console import Console

from redkiln.views.hardware import Precision
from redkiln.views.self_test import SelfTestReport
from worker.hardware.doctor.evidence import Torch
from worker.hardware.doctor.gather import SystemPaths, gather
from worker.hardware.facts.driver import read_driver_version
from worker.hardware.health.selftest_cache import (
    CachedReports,
    choose_precisions,
    key_of_report,
    select_settings,
)
from worker.hardware.health.unavailable import explain_no_gpu
from worker.hardware.rocm_version import read_rocm_version
from worker.hardware.selftest.run import describe_device, run_self_test
from worker.hardware.selftest.table import render_report

EXIT_STATUSES = {"passed": 0, "failed": 1, "error": 2}
PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16", "bf16")


def main(arguments: Sequence[str], *, environ: Mapping[str, str]) -> int:
    """Test the device that the arguments name, and print the report."""
    options = _parse(arguments)
    # The sums are small: with several threads, waiting would take longer than computing.
    torch.set_num_threads(1)
    try:
        report = _find_or_run(options, _open(options, environ))
    except (RuntimeError, AssertionError) as error:  # a CPU build of torch raises AssertionError
        report = _blank(options.device, options, environ, _explain(error, environ))
    if options.json:
        sys.stdout.write(report.model_dump_json(indent=1) + "\n")
    else:
        Console().print(render_report(report))
    return EXIT_STATUSES[report.status]


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m worker.hardware.selftest", description=__doc__)
    default = "cuda:0" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", default=default, help=f"torch device (default: {default})")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--quick", action="store_true", help="test only a few small shapes")
    parser.add_argument(
        "--precisions", help="such as fp32,fp16 (default: all that the device supports)"
    )
    parser.add_argument(
        "--cache-dir", type=Path, help="folder of reports; reuse one of this GPU and these versions"
    )
    parser.add_argument(
        "--without-fused-attention",
        default="",
        metavar="WHY",
        help="do not try fused attention, and report it as broken for this reason",
    )
    parser.add_argument("--again", action="store_true", help="ignore reports of earlier tests")
    options = parser.parse_args(arguments)
    if options.precisions is not None:
        options.precisions = options.precisions.split(",")
        if not set(options.precisions) <= set(PRECISIONS):
            parser.error(f"--precisions: allowed are {', '.join(PRECISIONS)}")
    return options


def _open(options: argparse.Namespace, environ: Mapping[str, str]) -> SelfTestReport:
    """Open the device, and return a report with its description."""
    device = torch.device(options.device)
    if device.type == "cuda":
        torch.zeros(1, device=device)
    return _blank(str(device), options, environ).model_copy(update=describe_device(device))


def _explain(error: Exception, environ: Mapping[str, str]) -> str:
    text = f"{type(error).__name__}: {error}"[:1000]
    if torch.cuda.is_available():
        return text
    facts = Torch(
        torch.__version__,
        hip=torch.version.hip,
        rocm=read_rocm_version(torch.version),
        cuda=torch.version.cuda,
        num_devices=0,
        error=text,
    )
    return str(explain_no_gpu(gather(SystemPaths(), environment=environ, torch=facts)))


def _find_or_run(options: argparse.Namespace, blank: SelfTestReport) -> SelfTestReport:
    # Without an address one card's report would be used for all cards of its kind.
    is_known = blank.device == "cpu" or blank.pci_address is not None
    if options.cache_dir is None or not is_known:
        return _run(options, blank)
    cache, key = CachedReports(options.cache_dir), key_of_report(blank)
    found = None if options.again else cache.find(key)
    if found is not None:
        return found
    report = _run(options, blank)
    cache.save(key, report)
    return report


def _run(options: argparse.Namespace, blank: SelfTestReport) -> SelfTestReport:
    device = torch.device(blank.device)
    precisions = options.precisions or choose_precisions(device.type, gfx=blank.gfx)

    def say(text: str) -> None:
        if options.json:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    return run_self_test(
        blank,
        precisions=cast("Sequence[Precision]", precisions),
        say=say,
        fused_death=options.without_fused_attention,
    )


def _blank(
    device: str, options: argparse.Namespace, environ: Mapping[str, str], cause: str = ""
) -> SelfTestReport:
    return SelfTestReport(
        at=datetime.now(UTC),
        device=device,
        versions={
            "torch": torch.__version__,
            "rocm": read_rocm_version(torch.version),
            "cuda": torch.version.cuda,
            "driver": read_driver_version(),
        },
        settings=select_settings(environ),
        is_quick=options.quick,
        status="error",
        cause=cause,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], environ=os.environ))
