import os
import subprocess
from contextlib import contextmanager

import pytest

from redkiln.client.own_output import find_outputs, identify
from tests.waiting import wait_for


@contextmanager
def open_pipe_to(*command, cwd):
    """Start a program that reads a pipe; yield the end that is written to."""
    source, target = os.pipe()
    child = subprocess.Popen(command, stdin=source, stdout=subprocess.DEVNULL, cwd=cwd)
    os.close(source)
    try:
        yield target
    finally:
        os.close(target)
        child.wait(timeout=10)


def test_a_file_that_output_is_redirected_to_is_found(tmp_path):
    with (tmp_path / "log.txt").open("wb") as file:
        assert find_outputs((file.fileno(),)) == {identify(os.fstat(file.fileno()))}


def test_a_file_at_the_other_end_of_a_pipe_is_found(tmp_path):
    path = tmp_path / "log.txt"
    with open_pipe_to("tee", path.name, cwd=tmp_path) as target:
        wait_for(path.exists)
        assert identify(path.stat()) in find_outputs((target,))


def test_a_pipe_whose_reader_writes_no_file_adds_none(tmp_path):
    (tmp_path / "data").write_text("only read")
    reader = "exec 3< data; touch is-open; cat"
    with open_pipe_to("sh", "-c", reader, cwd=tmp_path) as target:
        wait_for((tmp_path / "is-open").exists)
        assert identify((tmp_path / "data").stat()) not in find_outputs((target,))


@pytest.mark.parametrize("descriptors", [(), (10_000,)])
def test_without_open_output_there_are_no_files(descriptors):
    assert find_outputs(descriptors) == frozenset()
