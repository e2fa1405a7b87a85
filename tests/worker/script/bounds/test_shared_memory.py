import os

import pytest

from worker.script.bounds.shared_memory import SharedFiles


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "before").write_bytes(os.urandom(100_000))
    return tmp_path


@pytest.fixture
def shared(folder):
    return SharedFiles(folder)


def test_files_that_a_script_has_open_are_counted_and_removed(shared, folder):
    with (folder / "own").open("wb") as file:
        file.write(os.urandom(200_000))
        file.flush()
        assert shared.look([os.getpid()]) >= 200_000
    assert shared.look([]) >= 200_000, "it stays the script's when it is closed"
    assert shared.remove() == 1
    assert [path.name for path in folder.iterdir()] == ["before"]


def test_files_of_other_programs_are_kept(shared, folder):
    (folder / "others").write_bytes(b"x")
    with (folder / "before").open("ab"), (folder / "others").open("rb"):
        assert shared.look([os.getpid()]) == 0
    assert shared.remove() == 0
    assert {path.name for path in folder.iterdir()} == {"before", "others"}


def test_unlinked_files_are_not_counted(shared, folder):
    with (folder / "own").open("wb") as file:
        file.write(b"x")
        file.flush()
        shared.look([os.getpid()])
        (folder / "own").unlink()
        (folder / "own").write_bytes(b"somebody else's, of the same name")
        assert shared.look([]) == 0
    assert shared.remove() == 0


def test_without_shared_memory_nothing_is_counted(tmp_path):
    shared = SharedFiles(tmp_path / "none")
    assert (shared.look([os.getpid()]), shared.remove()) == (0, 0)
