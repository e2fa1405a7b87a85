"""Draws the doctor's report on five made-up machines, for docs/doctor.md.

`python -m tools.doctor_pictures` judges them with the real rows and writes what a terminal of 80
columns shows to `docs/pictures/doctor-<machine>.svg`.
"""

import io
import sys
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from redkiln.cli.view.doctor_page import print_report
from redkiln.views.doctor import DoctorReport
from tools.doctor_machines import MACHINES
from tools.pictures import FOLDER, REMOTE_FONT
from worker.hardware.doctor.examine import examine

COLUMNS = 80
MOST_FINE = 4
"""Rows in order that a picture shows; a report lists all of them."""


def main() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, evidence in MACHINES.items():
        path = picture_path(name)
        path.write_text(draw(shorten(examine(evidence))))
        sys.stdout.write(f"{path}\n")


def picture_path(name: str) -> Path:
    """Return where the picture of a machine is."""
    return FOLDER / f"doctor-{name}.svg"


def shorten(report: DoctorReport) -> DoctorReport:
    """Keep only the first few of the rows that are in order."""
    fine = [check for check in report.checks if check.verdict == "ok" and check.row]
    left_out = {check.row for check in fine[MOST_FINE:]}
    kept = [check for check in report.checks if check.row not in left_out]
    return report.model_copy(update={"checks": kept})


def draw(report: DoctorReport) -> str:
    """Return a terminal with the report, as SVG."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), highlight=False,
                      force_terminal=True, color_system="truecolor")  # fmt: skip
    console.print("[bold green]$[/] redkiln doctor", highlight=False)
    print_report(console, report)
    svg = console.export_svg(title="", code_format=REMOTE_FONT.sub("", CONSOLE_SVG_FORMAT))
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


if __name__ == "__main__":
    main()
