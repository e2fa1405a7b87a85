import errno
import json
import os

import pytest

from redkiln.events import Event, EventKind, EventWriter


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events.jsonl"


def read(path):
    return [Event.model_validate_json(line) for line in path.read_text().splitlines()]


def test_each_event_is_a_line_with_its_time(path):
    with EventWriter(path) as writer:
        writer.write(EventKind.PHASE, phase="training")
        writer.write(EventKind.MESSAGE, text="two\nlines")
    first, second = read(path)
    assert (first.kind, first.data) == (EventKind.PHASE, {"phase": "training"})
    assert first.at.utcoffset().total_seconds() == 0
    assert second.data["text"] == "two\nlines"


def test_a_second_writer_appends_after_the_first(path):
    for text in ("a", "b"):
        with EventWriter(path) as writer:
            writer.write(EventKind.MESSAGE, text=text)
    assert [event.data["text"] for event in read(path)] == ["a", "b"]


@pytest.mark.parametrize("partial", [b"{", b'{"at": "2026', "ü".encode()[:1]])
def test_a_line_left_half_written_by_a_dead_process_is_removed(path, partial):
    with EventWriter(path) as writer:
        writer.write(EventKind.MESSAGE, text="whole")
    path.write_bytes(path.read_bytes() + partial)
    with EventWriter(path) as writer:
        writer.write(EventKind.MESSAGE, text="next")
    assert [event.data["text"] for event in read(path)] == ["whole", "next"]


def test_a_file_of_half_a_line_becomes_empty(path):
    path.write_bytes(b'{"at"')
    EventWriter(path).close()
    assert path.read_bytes() == b""


def test_a_line_appears_in_one_write(path, monkeypatch):
    writes = []
    monkeypatch.setattr(
        "redkiln.events.os.write", lambda fd, data: writes.append(data) or len(data)
    )
    with EventWriter(path) as writer:
        writer.write(EventKind.METRICS, points={"train/loss": [[1, 0.5]]})
    (line,) = writes
    assert line.endswith(b"\n")
    assert json.loads(line)["data"]["points"] == {"train/loss": [[1, 0.5]]}


def test_a_line_that_a_full_disk_cuts_is_removed(tmp_path, monkeypatch):
    real_write = os.write
    room = [10]

    def write(fd, data):
        if not room:
            raise OSError(errno.ENOSPC, "no space left on device")
        return real_write(fd, data[: room.pop()])

    path = tmp_path / "events.jsonl"
    with EventWriter(path) as writer:
        writer.write(EventKind.MESSAGE, text="first")
        before = path.read_bytes()
        monkeypatch.setattr(os, "write", write)
        with pytest.raises(OSError, match="no space"):
            writer.write(EventKind.MESSAGE, text="second")
        monkeypatch.undo()
        assert path.read_bytes() == before
        writer.write(EventKind.MESSAGE, text="third")
    assert [json.loads(line)["data"]["text"] for line in path.read_text().splitlines()] == [
        "first",
        "third",
    ]
