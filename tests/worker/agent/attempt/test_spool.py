import json

import worker.agent.attempt.spool as spool_module
from redkiln.events import EventKind, EventWriter
from worker.agent.attempt.spool import EventSpool, read_log_chunk, read_tail


def write(path, count):
    with EventWriter(path) as events:
        for number in range(count):
            events.write(EventKind.MESSAGE, text=str(number))


def texts(lines):
    return [line.event.data["text"] for line in lines]


def test_events_are_read_in_order_and_repeated_until_acknowledged(tmp_path):
    path = tmp_path / "events.jsonl"
    write(path, 5)
    spool = EventSpool(path)
    lines = spool.peek()
    assert texts(lines) == ["0", "1", "2", "3", "4"]
    spool.advance(to_seq=3)
    assert (spool.next_seq, texts(spool.peek())) == (4, ["3", "4"])
    spool.advance(to_seq=3)
    assert spool.next_seq == 4
    spool.advance(to_seq=5)
    assert (spool.next_seq, spool.peek()) == (6, [])


def test_an_incomplete_line_is_not_read(tmp_path):
    path = tmp_path / "events.jsonl"
    write(path, 1)
    with path.open("ab") as file:
        file.write(b'{"at":"2026')
    spool = EventSpool(path)
    assert len(spool.take()) == 1
    assert spool.take() == []


def test_a_missing_file_counts_as_empty(tmp_path):
    assert EventSpool(tmp_path / "none").take() == []
    assert read_log_chunk(tmp_path / "none", offset=0) is None
    assert read_tail(tmp_path / "none") == ""


def test_an_unreadable_line_becomes_a_message_and_keeps_its_number(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"rubbish\n")
    write(path, 1)
    events = EventSpool(path).take()
    assert [event.kind for event in events] == ["message", "message"]
    assert "rubbish" in events[0].data["text"]


def test_batches_are_bounded_but_a_long_line_is_still_sent(tmp_path):
    path = tmp_path / "events.jsonl"
    with EventWriter(path) as events:
        for size in (10, 10, 5000, 10):
            events.write(EventKind.MESSAGE, text="x" * size)
    spool = EventSpool(path)
    sizes = []
    while lines := spool.peek(max_bytes=200):
        sizes.append([len(line.event.data["text"]) for line in lines])
        spool.advance(to_seq=spool.next_seq + len(lines) - 1)
    assert [size for batch in sizes for size in batch] == [10, 10, 5000, 10]
    assert len(sizes) > 1


def test_a_pending_line_is_parsed_once(tmp_path, monkeypatch):
    parsed = []
    parse = spool_module.parse_event
    monkeypatch.setattr(spool_module, "parse_event", lambda raw: parsed.append(raw) or parse(raw))
    path = tmp_path / "events.jsonl"
    spool = EventSpool(path)
    for count in (3, 2):
        write(path, count)
        for _ in range(4):
            lines = spool.peek()
    assert texts(lines) == ["0", "1", "2", "0", "1"]
    spool.advance(to_seq=4)
    assert texts(spool.peek()) == ["1"]
    assert len(parsed) == 5


def test_a_batch_does_not_grow_beyond_its_limits(tmp_path):
    path = tmp_path / "events.jsonl"
    write(path, 8)
    spool = EventSpool(path)
    assert texts(spool.peek(max_events=3)) == texts(spool.peek(max_events=3)) == ["0", "1", "2"]
    spool.advance(to_seq=2)
    assert texts(spool.peek(max_events=3)) == ["2", "3", "4"]
    assert texts(spool.peek(max_bytes=1)) == ["2", "3", "4"]


def test_seeking_goes_to_an_event_by_its_number(tmp_path):
    path = tmp_path / "events.jsonl"
    write(path, 6)
    spool = EventSpool(path)
    spool.take()
    spool.seek(3)
    assert (spool.next_seq, texts(spool.peek())) == (3, ["2", "3", "4", "5"])
    spool.seek(99)
    assert (spool.next_seq, spool.peek()) == (7, [])


def test_a_loss_that_is_not_a_number_can_be_sent(tmp_path):
    path = tmp_path / "events.jsonl"
    with EventWriter(path) as events:
        events.write(EventKind.METRICS, points={"loss": [[1, float("nan")]]})
    (event,) = EventSpool(path).take()
    assert json.loads(event.model_dump_json())["data"]["points"]["loss"] == [[1, None]]


def test_the_log_is_read_in_chunks_of_any_bytes(tmp_path):
    path = tmp_path / "trainer.log"
    path.write_bytes(b"ab\xff\x00cd")
    chunk = read_log_chunk(path, offset=1, max_bytes=3)
    assert (chunk.offset, chunk.data) == (1, b"b\xff\x00")
    assert read_log_chunk(path, offset=6) is None
    assert read_tail(path, max_bytes=2) == "cd"
