import io
from datetime import UTC, datetime

from rich.console import Console

from redkiln.cli.view.doctor_page import print_report
from redkiln.views.hardware import DoctorCheck, DoctorReport

BLOCKS = DoctorCheck(
    id="nodes_open",
    row=4,
    title="permission on the nodes",
    verdict="bad",
    severity="blocks",
    evidence="/dev/kfd: Permission denied",
    cause="this process is not in the group",
    fix='group_add: ["992"]   in compose, ' + "and a line that is longer than the terminal " * 3,
)
UNKNOWN = DoctorCheck(
    id="no_hang",
    row=10,
    title="hangs",
    verdict="unknown",
    severity="note",
    evidence="the kernel's log may not be read",
    fix="sudo dmesg",
)
FINE = DoctorCheck(
    id="wsl", row=22, title="WSL2", verdict="ok", severity="note", evidence="not WSL2 " * 30
)
GPUS = DoctorCheck(
    id="gpus", row=0, title="GPUs", verdict="ok", severity="note", evidence="gfx1100 at 0000:03"
)


def shown(*checks, **options):
    report = DoctorReport(
        at=datetime(2026, 5, 1, tzinfo=UTC),
        hostname="station",
        versions={"torch": "2.13", "hip": None},
        checks=list(checks),
    )
    console = Console(file=io.StringIO(), width=80, highlight=False, **options)
    print_report(console, report)
    return console.file.getvalue()


def test_a_fault_is_shown_with_evidence_cause_and_fix():
    text = shown(GPUS, BLOCKS, UNKNOWN, FINE)
    lines = text.splitlines()
    assert lines[0] == "station  something blocks jobs"
    assert lines[1:3] == ["torch 2.13", "gfx1100 at 0000:03"]
    assert "✗ permission on the nodes  blocks  row 4" in lines
    for part in (BLOCKS.evidence, BLOCKS.cause):
        assert part in text


def test_commands_to_copy_are_not_broken_over_lines():
    (line,) = [line for line in shown(BLOCKS, force_terminal=True).splitlines() if "992" in line]
    assert BLOCKS.fix.strip() in line


def test_a_good_check_takes_one_line():
    (line,) = [line for line in shown(FINE).splitlines() if "WSL2" in line]
    assert len(line) <= 80
    assert line.startswith("✓ WSL2")


def test_an_unknown_check_says_how_to_get_the_evidence():
    text = shown(UNKNOWN)
    assert "? hangs" in text
    assert "sudo dmesg" in text
    assert "no problems found" in text


def test_checks_of_the_service_have_no_row_number():
    broker = FINE.model_copy(update={"id": "broker", "row": 0, "evidence": "it answers"})
    assert "✓ WSL2" in shown(broker)


def test_brackets_in_a_fix_are_not_markup():
    check = BLOCKS.model_copy(update={"fix": "devices: !override [/dev/kfd, red]"})
    assert "[/dev/kfd, red]" in shown(check)
