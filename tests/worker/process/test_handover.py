import fcntl
import os
import socket
from multiprocessing.connection import Connection

from worker.jobdir import EXPORTER_VARIABLE
from worker.process.handover import GREETING, greet_trainer, is_job_waiting


def pair():
    ours, theirs = socket.socketpair()
    return Connection(ours.detach()), theirs


def test_an_exporter_greets_the_trainer_at_the_other_end():
    ours, theirs = pair()
    with theirs:
        connection = greet_trainer({EXPORTER_VARIABLE: str(theirs.fileno())})
        assert ours.recv_bytes() == GREETING
        connection.close()
    ours.close()


def test_an_exporter_whose_other_end_is_closed_has_no_connection():
    ours, theirs = pair()
    ours.close()
    with theirs:
        assert greet_trainer({EXPORTER_VARIABLE: str(theirs.fileno())}) is None
    assert greet_trainer({}) is None


def test_a_job_is_waiting_once_something_can_be_read():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert not is_job_waiting(theirs.fileno())
        ours.send(b"/a/job")
        assert is_job_waiting(theirs.fileno())


def test_a_descriptor_above_those_that_select_accepts_is_watched():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        high = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, 1500)
        ours.send(b"/a/job")
        assert is_job_waiting(high)
        os.close(high)
