import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from redkiln.cli.view.doctor_page import first_of, print_first, print_report
from redkiln.views.doctor import DoctorReport
from redkiln.views.hardware import DoctorCheck, DoctorTrial

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


def shown(*checks, trials=(), **options):
    report = DoctorReport(
        at=datetime(2026, 5, 1, tzinfo=UTC),
        hostname="station",
        versions={"torch": "2.13", "hip": None},
        checks=list(checks),
        trials=list(trials),
    )
    console = Console(file=io.StringIO(), width=80, highlight=False, **options)
    print_report(console, report)
    return console.file.getvalue()


def test_a_fault_is_shown_with_evidence_cause_and_fix():
    text = shown(GPUS, BLOCKS, UNKNOWN, FINE)
    lines = text.splitlines()
    assert lines[0].startswith("First: group_add")
    assert lines[1] == "station  something blocks jobs"
    assert lines[2:4] == ["torch 2.13", "gfx1100 at 0000:03"]
    assert "✗ permission on the nodes  blocks  row 4" in lines
    for part in (BLOCKS.evidence, BLOCKS.cause):
        assert part in text


@pytest.mark.parametrize(
    ("name", "device", "command"),
    [
        ("matmul", "cuda:1", "python -m worker.hardware.selftest --device cuda:1"),
        (
            "all-reduce",
            "2 x cuda",
            "NCCL_DEBUG=INFO python -m worker.hardware.peers 2 --device-type cuda",
        ),
    ],
)
def test_a_failed_trial_is_followed_by_a_longer_test_of_the_same(name, device, command):
    trial = DoctorTrial(name=name, device=device, verdict="crashed", detail="SIGABRT")
    assert shown(GPUS, trials=[trial]).startswith(f"First: {command}\n")


def test_commands_to_copy_are_not_broken_over_lines():
    lines = [line for line in shown(BLOCKS, force_terminal=True).splitlines() if "992" in line]
    assert len(lines) == 2  # in the first line, and in its row
    assert all(BLOCKS.fix.strip() in line for line in lines)


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


def test_the_first_line_is_the_command_and_where_to_type_it():
    check = BLOCKS.model_copy(update={"command": "./up", "on_host": True})
    assert shown(check).splitlines()[0] == "First (on its host): ./up"
    assert shown(FINE).splitlines()[0] == "Nothing to do."


def test_what_cured_it_before_comes_first():
    console = Console(file=io.StringIO(), width=80)
    print_first(console, BLOCKS, remembered="rm a.ukdb", where="station")
    assert console.file.getvalue().splitlines()[0] == "First on station: rm a.ukdb"


def test_rows_that_follow_are_named_under_their_cause_alone():
    follower = UNKNOWN.model_copy(update={"follows": 4})
    text = shown(BLOCKS, follower)
    assert "explains hangs (row 10)" in text
    assert "? hangs" not in text


def test_a_row_that_a_container_cannot_see_says_so():
    hidden = UNKNOWN.model_copy(update={"is_hidden": True, "command": "sudo dmesg"})
    assert "sudo dmesg   (a container cannot see it)" in shown(hidden)


def test_the_most_serious_first_check_of_several_machines_is_chosen():
    slow = UNKNOWN.model_copy(update={"verdict": "bad", "severity": "slows"})
    reports = [
        DoctorReport(at=datetime(2026, 5, 1, tzinfo=UTC), hostname=name, checks=[check])
        for name, check in (("a", slow), ("b", BLOCKS), ("c", FINE))
    ]
    assert first_of(reports)[0].hostname == "b"
    assert first_of(reports[2:]) is None
