import mmap
import os
import signal

import pytest

from worker.script.bounds.nameless import find_hidden, measure_nameless
from worker.script.bounds.processes import PR_SET_DUMPABLE, _prctl

NOBODY = 65534
SIZE = 400_000


@pytest.fixture
def counted():
    """Bytes that this process's nameless files use, in addition to those before the test."""
    before = measure_nameless([os.getpid()])
    return lambda: measure_nameless([os.getpid()]) - before


def test_a_removed_file_counts_while_it_is_open(tmp_path, counted):
    with (tmp_path / "removed").open("wb", buffering=0) as file:
        file.write(os.urandom(SIZE))
        assert counted() == 0, "it has a name"
        (tmp_path / "removed").unlink()
        assert SIZE <= counted() < 2 * SIZE
    assert counted() == 0


def test_a_file_in_memory_counts_once_however_it_is_held(counted):
    number = os.memfd_create("secret")
    os.write(number, os.urandom(SIZE))
    again = os.dup(number)
    held = mmap.mmap(number, SIZE)
    assert SIZE <= counted() < 2 * SIZE
    os.close(number)
    os.close(again)
    assert SIZE <= counted() < 2 * SIZE, "it is mapped"
    held.close()
    assert counted() == 0


def test_memory_that_processes_share_is_not_a_file(counted):
    with mmap.mmap(-1, SIZE):
        assert counted() == 0


def test_processes_that_have_ended_are_skipped():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert measure_nameless([child]) == 0
    assert find_hidden([child]) == set()


@pytest.mark.parametrize("is_hidden", [False, True])
def test_a_process_that_hides_its_files_is_found(is_hidden):
    looker = os.fork()
    if looker == 0:  # an ordinary user, who may not look at everything
        status = 2
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setresuid(NOBODY, NOBODY, NOBODY)
            ready, told = os.pipe()
            hider = os.fork()
            if hider == 0:
                _prctl(PR_SET_DUMPABLE, 0 if is_hidden else 1)
                os.write(told, b"x")
                signal.pause()
            os.read(ready, 1)
            status = find_hidden([hider]) != ({hider} if is_hidden else set())
            os.kill(hider, signal.SIGKILL)
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(looker, 0)[1]) == 0
