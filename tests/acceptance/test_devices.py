"""Device nodes made by hand: opening them fails, but owners, groups and cgroup are real."""

import os
import stat
from pathlib import Path

import pytest

from docker.user import REDKILN_GID, REDKILN_UID
from tests.acceptance.stack import find_free_address, run

pytestmark = pytest.mark.acceptance

GROUP = 992
# Numbers that no driver here answers to (240 is for experiments): opening ends with ENXIO.
NODES = {Path("/dev/kfd"): (240, 200), Path("/dev/dri/renderD128"): (226, 128)}
DEVICES = [f"--device={path}" for path in NODES]
LOOK = """
import os
print(os.getuid(), os.getgid(), *os.getgroups())
for path in ("/dev/kfd", "/dev/dri/renderD128"):
    try:
        os.close(os.open(path, os.O_RDWR))
        print(path, "opened")
    except OSError as error:
        print(path, error.strerror)
"""


@pytest.fixture
def nodes(engine):
    if any(path.exists() for path in NODES):
        pytest.skip("this machine has such devices itself")
    made_folder = not Path("/dev/dri").exists()
    Path("/dev/dri").mkdir(exist_ok=True)
    for path, (major, minor) in NODES.items():
        os.mknod(path, stat.S_IFCHR | 0o660, os.makedev(major, minor))
        os.chown(path, 0, GROUP)
        path.chmod(0o660)
    yield
    for path in NODES:
        path.unlink()
    if made_folder:
        Path("/dev/dri").rmdir()


def start(image, *options, command=("python", "-c", LOOK)):
    """Run the worker's image as compose.yaml does, with other options."""
    return run(
        "docker", "run", "--rm", "--read-only", "--tmpfs=/tmp", "--cap-drop=ALL",
        "--volume=/worker", "--volume=/cache/kernels", "--volume=/locks",
        "--security-opt=no-new-privileges:true", "--env=REDKILN_DEVICES=amd", *options, image,
        *command, check=False,
    )  # fmt: skip


ROOT_START = ["--cap-add=SETUID", "--cap-add=SETGID"]


def test_an_unprivileged_worker_gets_the_drivers_own_error(images, nodes):
    done = start(images["worker"], *ROOT_START, *DEVICES)
    assert done.returncode == 0, done.stderr
    who, *openings = done.stdout.splitlines()
    assert who == f"{REDKILN_UID} {REDKILN_GID} {GROUP}"
    for path, opening in zip(NODES, openings, strict=True):
        assert opening.startswith(f"{path} No such device")
        assert f"{path} is open to user {REDKILN_UID}; the driver answers" in done.stderr


def test_the_whole_stack_of_a_workstation_starts(images, nodes, build_stack):
    stack = build_stack("workstation", "compose.yaml", REDKILN_BIND=find_free_address("127.0.0.1"))
    stack.up()
    stack.wait_healthy()
    stack.wait_for_workers(1)
    status = stack.execute("worker", "cat", "/proc/1/status").stdout
    fields = dict(line.split(":", 1) for line in status.splitlines())
    assert fields["Groups"].split() == [str(GROUP)]
    assert set(fields["Uid"].split()) == {str(REDKILN_UID)}


def test_without_the_nodes_it_says_what_to_do(images):
    if Path("/dev/kfd").exists():
        pytest.skip("this machine has the device")
    done = start(images["worker"], *ROOT_START)
    assert done.returncode == 78
    assert "/dev/kfd is not in this container" in done.stderr
    assert "./up --cpu" in done.stderr


def test_docker_itself_refuses_a_device_that_the_host_lacks(images, build_stack):
    if Path("/dev/kfd").exists():
        pytest.skip("this machine has the device")
    stack = build_stack("nodevice", "compose.yaml", REDKILN_BIND=find_free_address("127.0.0.1"))
    done = stack.compose("up", "--detach", "--no-build", "--no-deps", "worker", check=False)
    assert done.returncode != 0
    assert "/dev/kfd" in done.stderr


def test_without_the_group_it_names_the_number_to_type(images, nodes):
    user = f"--user={REDKILN_UID}:{REDKILN_GID}"
    done = start(images["worker"], user, *DEVICES)
    assert done.returncode == 78
    assert f"--group-add {GROUP}" in done.stderr
    done = start(images["worker"], user, f"--group-add={GROUP}", *DEVICES)
    assert done.returncode == 0, done.stderr


def test_root_without_capabilities_gets_an_error_that_names_them(images, nodes):
    done = start(images["worker"], *DEVICES)
    assert done.returncode == 78
    assert f"group {GROUP} is missing" in done.stderr
    assert "SETGID" in done.stderr


def test_a_mounted_node_without_a_device_has_its_own_error(images, nodes):
    mounts = [f"--volume={path}:{path}" for path in NODES]
    done = start(images["worker"], *ROOT_START, *mounts)
    assert done.returncode == 78
    assert "the device cgroup forbids" in done.stderr


def test_the_error_of_closed_nodes_has_the_command_that_opens_them(images, nodes):
    Path("/dev/kfd").chmod(0o600)
    done = start(images["worker"], *ROOT_START, *DEVICES)
    assert done.returncode == 78
    assert "sudo chgrp render /dev/kfd && sudo chmod 660 /dev/kfd" in done.stderr
