import errno
import re

import pytest

from docker.devices import (
    OVERFLOW_ID,
    Grant,
    Identity,
    Node,
    Opening,
    decide_groups,
    judge_openings,
)

UID = 10001
KFD = Node("/dev/kfd", 0, 992, 0o660)
RENDER = Node("/dev/dri/renderD128", 0, 992, 0o660)
OTHER_RENDER = Node("/dev/dri/renderD129", 0, 105, 0o660)
CLOSED_RENDER = Node("/dev/dri/renderD130", 0, 0, 0o600)
DXG = Node("/dev/dxg", 0, 0, 0o666)

ROOT = Identity(UID, frozenset({UID}), can_add_groups=True)
NOBODY = Identity(UID, frozenset({UID}), can_add_groups=False)


@pytest.mark.parametrize(
    ("nodes", "expected", "identity", "groups"),
    [
        ([KFD, RENDER], "amd", ROOT, (992,)),
        ([KFD, OTHER_RENDER], "amd", ROOT, (105, 992)),
        ([KFD, RENDER, OTHER_RENDER], "amd", ROOT, (105, 992)),
        ([KFD, RENDER, CLOSED_RENDER], "amd", ROOT, (992,)),
        # open to all: no user needs a group
        ([Node("/dev/kfd", 0, 0, 0o666), Node("/dev/dri/renderD128", 0, 0, 0o666)],
         "amd", NOBODY, ()),
        # `group_add` or `--group-add` gave it the group already
        ([KFD, RENDER], "amd", Identity(UID, frozenset({UID, 992}), can_add_groups=False), ()),
        # a rootless engine whose user owns the nodes
        ([Node("/dev/kfd", UID, OVERFLOW_ID, 0o660), Node("/dev/dri/renderD128", UID, 44, 0o660)],
         "amd", NOBODY, ()),
        ([DXG], "wsl", NOBODY, ()),
        ([RENDER], "vulkan", ROOT, (992,)),
        ([], "none", NOBODY, ()),
        ([CLOSED_RENDER], "none", NOBODY, ()),
    ],
)  # fmt: skip
def test_the_groups_of_closed_nodes_are_added(nodes, expected, identity, groups):
    assert decide_groups(nodes, expected=expected, identity=identity) == Grant(groups=groups)


@pytest.mark.parametrize(
    ("nodes", "expected", "identity", "said"),
    [
        ([], "amd", ROOT, ["/dev/kfd is not", "modprobe amdgpu", "./up --cpu"]),
        ([RENDER], "amd", ROOT, ["/dev/kfd is not", "--device /dev/kfd --device /dev/dri"]),
        ([KFD], "amd", ROOT, ["/dev/dri/renderD* is not", "compose.yaml passes both"]),
        ([KFD], "vulkan", ROOT, ["/dev/dri/renderD* is not"]),
        ([KFD, RENDER], "wsl", ROOT, ["/dev/dxg is not", "./up --wsl"]),
        ([KFD, RENDER], "amd", NOBODY, ["group 992 is missing", "REDKILN_GPU_GROUP=992 >> .env"]),
        ([KFD, CLOSED_RENDER], "amd", ROOT, ["chgrp render /dev/dri/renderD130", "udev"]),
        ([Node("/dev/kfd", 0, 992, 0o600), RENDER], "amd", ROOT, ["chgrp render /dev/kfd"]),
        ([Node("/dev/kfd", 0, 992, 0o640), RENDER], "amd", ROOT, ["chmod 660 /dev/kfd"]),
        ([Node("/dev/kfd", 0, OVERFLOW_ID, 0o660), RENDER], "amd", NOBODY, ["keep-groups"]),
    ],
)  # fmt: skip
def test_missing_access_is_explained_with_a_fix(nodes, expected, identity, said):
    grant = decide_groups(nodes, expected=expected, identity=identity)
    assert grant.problems
    assert not grant.groups
    text = "\n".join(grant.problems)
    for words in said:
        assert words in text
    assert not re.search(r"<\w+>| \.\.\.", text)  # each command can be typed as it is
    assert "as in compose.yaml" not in text  # which passes the devices already


def test_every_inaccessible_node_is_named():
    problems = decide_groups([KFD, RENDER], expected="amd", identity=NOBODY).problems
    assert [problem.split(" ")[0] for problem in problems] == ["/dev/kfd", "/dev/dri/renderD128"]


@pytest.mark.parametrize(
    ("errors", "refused"),
    [
        ({KFD: 0, RENDER: 0}, []),
        ({KFD: errno.ENODEV, RENDER: errno.ENXIO}, []),
        ({KFD: errno.EACCES, RENDER: 0}, [KFD]),
        ({KFD: 0, RENDER: errno.EPERM}, [RENDER]),
        ({KFD: 0, RENDER: errno.EACCES, OTHER_RENDER: 0}, []),
        ({KFD: 0, RENDER: errno.EACCES, OTHER_RENDER: errno.EPERM}, [RENDER, OTHER_RENDER]),
    ],
)
def test_only_a_refused_permission_stops_the_worker(errors, refused):
    openings = [Opening(node, error) for node, error in errors.items()]
    problems, notes = judge_openings(openings, uid=UID)
    assert len(problems) == len(refused)
    assert all(node.path in problem for node, problem in zip(refused, problems, strict=True))
    assert len(notes) == len(errors)


def test_the_drivers_own_answer_is_reported():
    _, (note,) = judge_openings([Opening(KFD, errno.ENODEV)], uid=UID)
    assert note == "/dev/kfd is open to user 10001; the driver answers: No such device"
