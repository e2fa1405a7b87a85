import os

import pytest

from worker.script.results.files import Folder, kind_of


@pytest.fixture
def out(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    return out


def names(results):
    return sorted(item.name for item in results)


def test_a_closed_file_is_complete_and_returned_once(out):
    folder = Folder(out)
    (out / "a").mkdir()
    (out / "a" / "model.onnx").write_bytes(b"x")
    assert names(folder.look([os.getpid()])) == ["a/model.onnx"]
    assert folder.look([os.getpid()]) == []
    assert folder.size_bytes == 1


def test_a_file_open_for_writing_is_incomplete(out):
    folder = Folder(out)
    with (out / "big.bin").open("wb") as file:
        file.write(b"half")
        file.flush()
        assert folder.look([os.getpid()]) == []
    assert names(folder.look([os.getpid()])) == ["big.bin"]


def test_a_file_open_for_reading_is_complete(out):
    (out / "a").write_bytes(b"x")
    with (out / "a").open("rb"):
        assert names(Folder(out).look([os.getpid()])) == ["a"]


def test_a_rewritten_file_is_returned_again_but_not_too_often(out):
    now = [0.0]
    folder = Folder(out, again_seconds=10, clock=lambda: now[0])
    (out / "a").write_bytes(b"1")
    assert names(folder.look([])) == ["a"]
    (out / "a").write_bytes(b"22")
    assert folder.look([]) == []
    now[0] = 10.0
    assert names(folder.look([])) == ["a"]
    (out / "a").write_bytes(b"333")
    assert names(folder.look([], is_over=True)) == ["a"]


def test_files_with_unfinished_names_wait_for_the_end(out):
    (out / "model.pt.tmp").write_bytes(b"x")
    folder = Folder(out)
    assert folder.look([]) == []
    assert names(folder.look([], is_over=True)) == ["model.pt.tmp"]


def test_links_pipes_and_invalid_names_are_refused_with_a_reason(out):
    (out / "link").symlink_to("/etc/passwd")
    os.mkfifo(out / "pipe")
    (out / "a\\b").touch()
    folder = Folder(out)
    assert folder.look([], is_over=True) == []
    assert set(folder.refused) == {"link", "pipe", "a\\b"}


def test_hidden_files_are_not_results(out):
    (out / ".cache").mkdir()
    (out / ".cache" / "x").touch()
    (out / ".hidden").touch()
    assert Folder(out).look([], is_over=True) == []


def test_the_number_of_files_is_bounded(out):
    for number in range(5):
        (out / f"{number}").touch()
    folder = Folder(out, max_files=3)
    assert len(folder.look([])) == 3
    assert folder.num_too_many == 2


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("m.onnx", "model"),
        ("a/w.safetensors", "checkpoint"),
        ("x.bin", "file"),
        ("c.PNG", "figure"),
    ],
)
def test_the_kind_follows_from_the_suffix(name, kind):
    assert kind_of(name)[0] == kind
