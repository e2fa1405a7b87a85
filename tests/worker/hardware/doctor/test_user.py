import os
import subprocess
import sys
from pathlib import Path

import pytest

from worker.hardware.doctor.user import User, find_worker_user, parse_user

IDS = "10001\t10001\t10001\t10001"
STATUS = f"Name:\tpython\nUid:\t{IDS}\nGid:\t{IDS}\nGroups:\t44 992 \n"
WORKER = User(10001, 10001, (44, 992))


def make_root(tmp_path, status=STATUS, *, is_container=True):
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/status").write_text(status)
    if is_container:
        (tmp_path / ".dockerenv").touch()
    return tmp_path


def test_a_user_is_read_from_its_process():
    assert parse_user(STATUS) == WORKER
    assert parse_user("nonsense") is None


def test_root_in_a_container_becomes_the_user_of_its_first_process(tmp_path):
    assert find_worker_user(make_root(tmp_path), {}, uid=0) == WORKER


def test_a_user_other_than_root_is_kept(tmp_path):
    assert find_worker_user(make_root(tmp_path), {}, uid=10001) is None


def test_outside_a_container_the_user_is_kept(tmp_path):
    assert find_worker_user(make_root(tmp_path, is_container=False), {}, uid=0) is None


def test_the_user_is_kept_if_the_first_process_is_root(tmp_path):
    root = make_root(tmp_path, STATUS.replace("10001", "0"))
    assert find_worker_user(root, {}, uid=0) is None


def test_a_process_becomes_another_user_with_its_groups():
    if os.getuid() != 0:
        pytest.skip("only root can become somebody else")
    script = (
        "import os; from worker.hardware.doctor.user import User, become; "
        "print(become(User(10001, 10001, (44, 992))), os.getuid(), sorted(os.getgroups()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split(maxsplit=2)[:2] == ["True", "10001"]
    assert "[44, 992]" in done.stdout
