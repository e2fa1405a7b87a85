import math
import struct

from tensorboardX.proto import event_pb2 as events

from worker.tfevents.event_file import EventFile
from worker.tfevents.records import crc32c, encode_record


def read(path):
    """Every event of a file, by another project's messages; checksums are checked."""
    content, found = path.read_bytes(), []
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        record = content[: length + 16]
        assert record == encode_record(record[12:-4])
        found.append(events.Event.FromString(record[12:-4]))
        content = content[length + 16 :]
    return found


def test_checksums_match_the_standard():
    # RFC 3720, appendix B.4.
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"123456789") == 0xE3069283


def test_record_checksums_match_another_writers():
    from tensorboardX.crc32c import crc32c as theirs

    data = "loss à 3".encode() * 20
    crc = theirs(data)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert encode_record(data)[-4:] == struct.pack("<I", masked)


def test_a_file_is_read_back_with_steps_times_and_values(tmp_path):
    file = EventFile(tmp_path / "run" / "events.out.tfevents", wall_time=100.5)
    file.add("train/loss", [(1, 2.5), (300, 0.25)], wall_time=101.0)
    file.add("val/accuracy", [(300, 0.75)], wall_time=102.0)
    # A reader finds whole records while the file is written.
    first, *scalars = read(tmp_path / "run" / "events.out.tfevents")
    file.close()
    assert (first.file_version, first.wall_time) == ("brain.Event:2", 100.5)
    assert [(e.step, e.wall_time) for e in scalars] == [(1, 101.0), (300, 101.0), (300, 102.0)]
    assert [(v.tag, v.simple_value) for e in scalars for v in e.summary.value] == [
        ("train/loss", 2.5),
        ("train/loss", 0.25),
        ("val/accuracy", 0.75),
    ]


def test_values_that_a_float_cannot_hold_are_infinite_and_never_an_error(tmp_path):
    file = EventFile(tmp_path / "events.out.tfevents", wall_time=0.0)
    file.add("x", [(1, 1e300), (2, -1e300), (2**40, math.nan)], wall_time=0.0)
    file.close()
    _, *found = read(tmp_path / "events.out.tfevents")
    values = [event.summary.value[0].simple_value for event in found]
    assert values[:2] == [math.inf, -math.inf]
    assert math.isnan(values[2])
    assert found[2].step == 2**40
