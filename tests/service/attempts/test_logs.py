import base64
import tracemalloc

import pytest

from redkiln.protocol import LogChunk
from service.attempts.logs import append_chunk, find_tail, read_window


def chunk(offset, data):
    return LogChunk(offset=offset, data=base64.b64encode(data))


@pytest.mark.parametrize(
    ("offset", "data", "size", "quota", "content"),
    [
        (0, b"abc", 0, 100, b"abc"),
        (0, b"abcdef", 3, 100, b"...def"),
        (0, b"abc", 3, 100, b"..."),
        (5, b"abc", 3, 100, b"..."),
        (3, b"defgh", 3, 5, b"...de"),
        (3, b"def", 3, 3, b"..."),
        (3, b"def", 3, 0, b"..."),
    ],
)
def test_only_new_bytes_within_the_quota_are_written(tmp_path, offset, data, size, quota, content):
    path = tmp_path / "a.log"
    path.write_bytes(b"." * size)
    assert append_chunk(path, chunk(offset, data), size=size, quota=quota) == len(content)
    assert path.read_bytes() == content


def test_bytes_of_an_uncommitted_write_are_overwritten(tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(b"abcXXXX")
    assert append_chunk(path, chunk(3, b"de"), size=3, quota=100) == 5
    assert read_window(path, start=0, end=5).data == b"abcde"


@pytest.mark.parametrize(
    ("text", "lines", "tail"),
    [
        (b"", 3, b""),
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\nb\n", 5, b"a\nb\n"),
        (b"a\nb\n", 0, b""),
        (b"\n\n\n", 2, b"\n\n"),
        (b"x" * 500 + b"\nlast\n", 1, b"last\n"),
        (b"one line without an end", 1, b"one line without an end"),
    ],
)
def test_the_tail_starts_at_a_line(tmp_path, text, lines, tail):
    path = tmp_path / "a.log"
    path.write_bytes(text)
    start = find_tail(path, size=len(text), lines=lines, window_bytes=16)
    assert text[start:] == tail


def test_the_tail_of_an_endless_line_needs_little_memory(tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * 4_000_000)
    tracemalloc.start()
    try:
        assert find_tail(path, size=4_000_000, lines=1) == 0
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
