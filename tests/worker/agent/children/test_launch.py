import os
import socket
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from worker.agent.children.children import Child, Spawner
from worker.agent.children.launch import Launcher, decide_export_spare
from worker.agent.children.own_code import OwnCode, own_paths
from worker.agent.children.spare import Spare
from worker.agent.gpus.patching import Patching
from worker.agent.gpus.pool import GpuAllocation
from worker.agent.inventory import Inventory, SlotPlan
from worker.hardware.leases import LeaseFolder
from worker.jobdir import JobDir, Order, OrderPaths
from worker.settings import WorkerSettings

ROOT = Path(__file__).parents[4]
ECHO = "import sys; print(sys.stdin.readline(), end='', flush=True)"


@pytest.mark.parametrize(
    ("progress", "decision"),
    [
        ({"fraction": 0.0, "eta_seconds": None}, "keep"),
        ({"fraction": 0.6, "eta_seconds": None}, "start"),
        ({"fraction": 0.1, "eta_seconds": 3.0}, "start"),
        ({"fraction": 0.5, "eta_seconds": 60.0}, "keep"),
        ({"fraction": 0.9, "eta_seconds": 3600.0}, "end"),
        ({}, "keep"),
    ],
)
def test_the_export_child_waits_unless_the_training_takes_long(progress, decision):
    assert decide_export_spare(progress) == decision


@pytest.fixture
def spare(tmp_path):
    spare = Spare(
        [sys.executable, "-c", ECHO],
        spawner=Spawner(),
        working_dir=tmp_path,
        log_path=tmp_path / "spare.log",
    )
    yield spare
    spare.close()


def test_a_spare_is_given_its_job_directory(spare, tmp_path):
    spare.start({"A": "1"})
    child = spare.give(JobDir(tmp_path / "job"), {"A": "1"})
    assert isinstance(child, Child)
    assert child.wait(60)
    assert child.reap() == 0
    assert (tmp_path / "spare.log").read_text() == f"{tmp_path / 'job'}\n"
    assert spare.pid is None


def test_a_spare_with_another_environment_is_ended_and_not_used(spare, tmp_path):
    spare.start({"A": "1"})
    reason = spare.give(JobDir(tmp_path), {"A": "2"})
    assert reason == "the spare was started with a different environment"
    assert spare.pid is None


def test_without_a_spare_the_reason_is_returned(spare, tmp_path):
    assert spare.give(JobDir(tmp_path), {}) == "no spare was waiting"


def test_a_spare_that_exited_is_reported_with_its_log(spare, tmp_path):
    spare.start({})
    child = spare._child
    spare._channel.shutdown(socket.SHUT_WR)
    assert child.wait(60)
    assert "spare.log" in spare.give(JobDir(tmp_path), {})


def test_only_one_spare_waits(spare):
    spare.start({})
    pid = spare.pid
    spare.start({})
    assert spare.pid == pid


def test_no_spare_is_started_after_close(spare):
    spare.close()
    spare.start({})
    assert spare.pid is None


ANSWER = """
import sys
sys.path.insert(0, sys.argv[1])
import os
from worker.process.handover import find_connection
with find_connection(os.environ) as connection:
    connection.send_bytes(b"answer to " + connection.recv_bytes())
sys.stdin.readline()
"""


@pytest.fixture
def asked_spare(tmp_path):
    spare = Spare(
        [sys.executable, "-c", ANSWER, str(ROOT)],
        spawner=Spawner(),
        working_dir=tmp_path,
        log_path=tmp_path / "spare.log",
        is_asked=True,
    )
    yield spare
    spare.close()


def test_a_trainer_can_ask_the_waiting_process(asked_spare, tmp_path):
    asked_spare.start({"A": "1"})
    assert asked_spare.connect({"A": "2"}) is None
    with asked_spare.connect({"A": "1"}) as ours, Connection(os.dup(ours.fileno())) as connection:
        connection.send_bytes(b"question")
        assert connection.recv_bytes() == b"answer to question"
    child = asked_spare.give(JobDir(tmp_path), {"A": "1"})
    assert isinstance(child, Child)
    assert child.wait(60)
    child.reap()
    assert asked_spare.connect({"A": "1"}) is None


def test_the_end_of_the_asked_process_is_noticed_by_the_trainer(asked_spare):
    asked_spare.start({})
    with asked_spare.connect({}) as ours, Connection(os.dup(ours.fileno())) as connection:
        asked_spare.drop()
        with pytest.raises((EOFError, ConnectionResetError)):
            connection.recv_bytes()
    assert asked_spare.connect({}) is None


HOLD = """
import sys
sys.path.insert(0, sys.argv[1])
import os, subprocess
from worker.process.handover import wait_for_job
from worker.hardware.leases import inherited_leases
print(wait_for_job().root, flush=True)
rank = subprocess.Popen(["true"], pass_fds=inherited_leases(os.environ))
assert rank.wait() == 0
assert inherited_leases(os.environ)
with open(sys.argv[2]) as fifo:
    fifo.read()
"""


def test_a_waiting_trainer_receives_a_lease_taken_after_its_start(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    spare = Spare(
        [sys.executable, "-c", HOLD, str(ROOT), str(tmp_path / "fifo")],
        spawner=Spawner(),
        working_dir=tmp_path,
        log_path=tmp_path / "spare.log",
    )
    spare.start({"PATH": os.environ["PATH"]})
    folder = LeaseFolder(tmp_path / "locks")
    (lease,) = folder.take(["0000:03:00.0"])
    jobdir = JobDir(tmp_path / "job")
    child = spare.give(jobdir, {"PATH": os.environ["PATH"]}, descriptors=[lease.fileno()])
    with (tmp_path / "fifo").open("w"):  # opens when the trainer has read its job
        lease.close()
        assert folder.take(["0000:03:00.0"]) is None
    assert child.wait(30)
    assert child.reap() == 0
    assert (tmp_path / "spare.log").read_text() == f"ready\n{jobdir.root}\n"
    assert folder.take(["0000:03:00.0"])
    folder.close()


KEEPER = """
import sys
warm = sys.argv[1] == "--spare"
print("warm" if warm else "cold", sys.stdin.readline().strip() if warm else sys.argv[1])
"""


def test_a_script_supervisor_waits_for_the_next_script(tmp_path):
    command = [sys.executable, "-c", KEEPER]
    settings = WorkerSettings(worker_dir=tmp_path / "worker", script_command=command)
    settings.worker_dir.mkdir()
    slot = SlotPlan(0, "cpu", "cpu", 1)
    launcher = Launcher(settings, Spawner(), slot=slot, patching=Patching(settings, Inventory()))

    def start(name):
        jobdir = JobDir(tmp_path / name)
        jobdir.root.mkdir()
        child = launcher.start_script(jobdir, GpuAllocation())
        assert child.wait(60)
        assert child.reap() == 0
        return jobdir

    first = start("first")
    assert first.log_path.read_text() == f"cold {first.root}\n"
    launcher.start_script_spare()
    second = start("second")
    said = (settings.worker_dir / "script-spare-0.log").read_text()
    assert said == f"warm {second.root}\n"
    launcher.close()


def test_a_new_child_inherits_only_the_given_descriptors(tmp_path):
    folder = LeaseFolder(tmp_path / "locks")
    given, kept = folder.take(["0000:03:00.0", "0000:04:00.0"])
    child = Spawner().spawn(
        ["sleep", "60"],
        environment={"PATH": os.environ["PATH"]},
        working_dir=tmp_path,
        inherited=[given.fileno()],
    )
    given.close()
    kept.close()
    assert folder.take(["0000:03:00.0"]) is None
    assert folder.take(["0000:04:00.0"])
    child.reap()
    assert folder.take(["0000:03:00.0"])
    folder.close()


def test_own_code_may_write_nothing_outside_its_job(tmp_path):
    shared = OrderPaths(cache_dir=tmp_path / "cache", kernel_cache_dir=tmp_path / "kernels")
    jobdir = JobDir(tmp_path / "job")
    jobdir.root.mkdir()
    order = Order(
        job_id="job_1",
        job_name="a job",
        attempt_id="att_1",
        spec={},
        device="cpu",
        threads=1,
        paths=own_paths(shared, jobdir),
    )
    jobdir.order_path.write_text(order.model_dump_json())
    own = OwnCode.prepare(jobdir, {"TRITON_CACHE_DIR": str(tmp_path / "kernels" / "triton")})
    writable = [*own.bounds.writable, own.bounds.paths.root, *own.caches.writable]
    assert all(path.is_relative_to(jobdir.root) for path in writable)
    assert order.paths.resolved_models_dir == tmp_path / "cache" / "models"
