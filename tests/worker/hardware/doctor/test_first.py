"""The first line of a report: one command, and rows that follow from another below it."""

import errno
import subprocess
from dataclasses import replace

import pytest

from tests.worker.hardware.doctor.faults import RED
from tests.worker.hardware.doctor.made_machine import CPU_BUILD, HEALTHY, KFD
from worker.hardware.doctor.examine import ROWS, examine
from worker.hardware.doctor.first import FOLLOWS, HOST_COMMANDS

NO_DRIVER = {
    "kfd": None,
    "is_container": False,
    "has_driver": False,
    "gpus": (),
    "render_nodes": (),
}


def test_a_missing_driver_is_the_only_thing_to_do():
    report = examine(replace(HEALTHY, **NO_DRIVER))
    assert report.first.command == "sudo modprobe amdgpu"
    shown = [c.row for c in report.checks if c.verdict != "ok" and c.follows is None and c.row]
    assert shown == [3, 25]
    assert {c.row for c in report.checks if c.follows == 3} >= {1, 4, 5, 8, 19}


def test_a_build_for_the_cpu_explains_the_missing_kernels():
    report = examine(replace(HEALTHY, torch=CPU_BUILD))
    assert report.first.row == 2
    assert {c.row for c in report.checks if c.follows == 2} >= {1, 6}


def test_nothing_is_folded_under_a_row_that_only_slows():
    report = examine(replace(HEALTHY, kernel_release="6.8.0", kernel_log=None))
    assert all(check.follows is None for check in report.checks)


def test_a_healthy_machine_has_nothing_to_do_first():
    assert examine(HEALTHY).first is None


def test_no_row_follows_itself_and_all_exist():
    numbers = {row.number for row in ROWS}
    for row, roots in FOLLOWS.items():
        assert {row, *roots} <= numbers
        assert row not in roots
    assert set(HOST_COMMANDS) <= numbers


def test_a_row_that_a_container_cannot_see_names_the_hosts_command():
    report = examine(replace(HEALTHY, kernel_log=None))
    hidden = {check.row: check for check in report.checks if check.is_hidden}
    assert set(hidden) == {9, 10}
    assert hidden[10].on_host
    assert hidden[10].command.startswith("sudo dmesg")
    outside = examine(replace(HEALTHY, kernel_log=None, is_container=False))
    assert not any(check.is_hidden for check in outside.checks)


@pytest.mark.parametrize(
    ("is_container", "command"),
    [
        (True, "echo REDKILN_GPU_GROUP=992 >> .env && docker compose up --detach worker"),
        (False, "sudo usermod --append --groups 992 $USER"),
    ],
)
def test_a_missing_group_is_one_command(is_container, command):
    closed = replace(KFD, error=errno.EACCES)
    report = examine(replace(HEALTHY, kfd=closed, is_container=is_container))
    assert (report.first.command, report.first.on_host) == (command, is_container)


def test_every_command_can_be_typed_as_it_is():
    commands = {
        check.command
        for _, changes, *_ in RED
        for check in examine(replace(HEALTHY, **changes)).checks
        if check.command
    }
    assert len(commands) > 20
    assert not [command for command in commands if "<" in command or "..." in command]
    script = "\n".join(commands)
    subprocess.run(["bash", "-n"], input=script, text=True, check=True, timeout=30)
