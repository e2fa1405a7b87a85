import fcntl
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from worker.hardware.leases import Holder, LeaseFolder, inherited_leases, release

ROOT = Path(__file__).parents[3]
CARDS = [f"0000:0{number}:00.0" for number in range(1, 5)]

HOLD = """
import sys, time
from pathlib import Path
from worker.hardware.leases import Holder, LeaseFolder
folder = LeaseFolder(Path(sys.argv[1]))
(lease,) = folder.take([sys.argv[2]])
lease.describe(Holder(worker_id="wrk_a", attempt_id="att_1"))
print("held", flush=True)
sys.stdin.read()
"""

HOLD_AND_START_ANOTHER = """
import subprocess, sys
from pathlib import Path
from worker.hardware.leases import LeaseFolder
(lease,) = LeaseFolder(Path(sys.argv[1])).take([sys.argv[2]])
child = subprocess.Popen(["sleep", "60"], pass_fds=[lease.fileno()], stdin=subprocess.DEVNULL)
print(child.pid, flush=True)
sys.stdin.read()
"""

CONTEND = """
import os, random, signal, sys, time
from pathlib import Path
from worker.hardware.leases import LeaseFolder, release
root, seed, rounds, dies = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
cards, draw, folder = sys.argv[5:], random.Random(seed), LeaseFolder(Path(sys.argv[1]))
for number in range(rounds):
    wanted = draw.sample(cards, draw.randint(1, 3))
    while (leases := folder.take(wanted)) is None:
        time.sleep(draw.uniform(0.0005, 0.003))
    markers = [root / f"{lease.key}.owner" for lease in leases]
    for marker in markers:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))  # fails if there is another owner
    time.sleep(draw.uniform(0, 0.003))
    for marker in markers:
        marker.unlink()
    if dies == "dies" and number == rounds // 2:
        os.kill(os.getpid(), signal.SIGKILL)
    release(leases)
print("done")
"""


def start(program, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def folder(tmp_path):
    folder = LeaseFolder(tmp_path / "locks")
    yield folder
    folder.close()


def test_a_gpu_is_leased_once(folder):
    (lease,) = folder.take([CARDS[0]])
    assert folder.take([CARDS[0]]) is None
    lease.close()
    assert folder.take([CARDS[0]])


def test_several_gpus_are_leased_together_or_not_at_all(folder):
    taken = folder.take([CARDS[2]])
    assert folder.take(CARDS) is None
    others = folder.take([CARDS[0], CARDS[1], CARDS[3]])
    assert [lease.key for lease in others] == [CARDS[0], CARDS[1], CARDS[3]]
    release([*taken, *others])
    assert len(folder.take(CARDS)) == 4


def test_a_lock_that_cannot_be_opened_releases_the_others(folder):
    broken = folder.root / f"{CARDS[3]}.lock"
    broken.mkdir()
    with pytest.raises(IsADirectoryError):
        folder.take(CARDS)
    assert len(folder.take(CARDS[:3])) == 3


def test_only_a_held_lease_has_a_holder(folder):
    assert folder.find_holder(CARDS[0]) is None
    (lease,) = folder.take([CARDS[0]])
    assert folder.find_holder(CARDS[0]) is None  # nobody has said yet who it is
    lease.describe(Holder(worker_id="wrk_a", attempt_id="att_long"))
    lease.describe(Holder(worker_id="wrk_a", attempt_id="att_1"))
    holder = folder.find_holder(CARDS[0])
    assert (holder.worker_id, holder.attempt_id, holder.pid) == ("wrk_a", "att_1", os.getpid())
    lease.close()
    assert folder.find_holder(CARDS[0]) is None


def test_looking_up_the_holder_does_not_block_a_lease(folder, monkeypatch):
    release(folder.take([CARDS[0]]))
    looking = os.open(folder.root / f"{CARDS[0]}.lock", os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr("worker.hardware.leases.time.sleep", lambda _: os.close(looking))
    assert folder.take([CARDS[0]]) is not None


def test_a_released_lease_is_not_passed_on(folder):
    (lease,) = folder.take([CARDS[0]])
    lease.close()
    lease.close()
    with pytest.raises(ValueError, match="has been released"):
        lease.fileno()


def test_a_folder_can_be_closed_twice_without_ending_leases(folder):
    (lease,) = folder.take([CARDS[0]])
    folder.close()
    folder.close()
    other = LeaseFolder(folder.root)
    assert other.take([CARDS[0]]) is None
    lease.close()
    other.close()


def test_a_process_passes_on_the_leases_that_it_was_started_with(folder):
    one, two = folder.take(CARDS[:2])
    named = {"REDKILN_TRAINER_LEASES": f"{one.fileno()},{two.fileno()},0,999"}
    assert inherited_leases(named) == (one.fileno(), two.fileno())
    assert inherited_leases({}) == ()


def test_users_share_the_folder_with_any_umask(tmp_path):
    before = os.umask(0o077)
    try:
        folder = LeaseFolder(tmp_path / "shared" / "locks")
        release(folder.take([CARDS[0]]))
    finally:
        os.umask(before)
    path = folder.root / f"{CARDS[0]}.lock"
    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    assert stat.S_IMODE(folder.root.stat().st_mode) == 0o1777
    folder.close()


def test_a_lock_on_a_removed_file_does_not_count(folder):
    (lease,) = folder.take([CARDS[0]])
    lease.close()
    (folder.root / f"{CARDS[0]}.lock").unlink()
    (lease,) = folder.take([CARDS[0]])
    assert folder.take([CARDS[0]]) is None


def test_a_killed_holder_frees_its_gpu_at_once(folder):
    with start(HOLD, folder.root, CARDS[0]) as holder:
        assert holder.stdout.readline() == "held\n"
        assert folder.take([CARDS[0]]) is None
        assert folder.find_holder(CARDS[0]).pid == holder.pid
        holder.kill()
        holder.wait()
        assert folder.find_holder(CARDS[0]) is None
        assert folder.take([CARDS[0]])


def test_a_child_that_outlives_the_agent_keeps_the_gpu_until_it_ends(folder):
    with start(HOLD_AND_START_ANOTHER, folder.root, CARDS[0]) as agent:
        child = int(agent.stdout.readline())
        agent.kill()
    try:
        assert folder.take([CARDS[0]]) is None
    finally:
        os.kill(child, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while folder.take([CARDS[0]]) is None:
        assert time.monotonic() < deadline, "the lock outlived its last holder"
        time.sleep(0.005)


def test_eight_processes_contend_for_four_gpus_without_two_owners_or_a_deadlock(folder):
    contenders = [
        start(CONTEND, folder.root, seed, 30, "dies" if seed in (2, 5) else "lives", *CARDS)
        for seed in range(8)
    ]
    ends = [contender.communicate(timeout=60)[0] for contender in contenders]
    statuses = [contender.returncode for contender in contenders]
    assert statuses == [-signal.SIGKILL if seed in (2, 5) else 0 for seed in range(8)]
    assert ends == ["" if seed in (2, 5) else "done\n" for seed in range(8)]
    assert len(folder.take(CARDS)) == 4
