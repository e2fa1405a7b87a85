import pytest

from worker.tfevents.wire import read_fields


@pytest.mark.parametrize(
    "message", [b"\x08", b"\x0a\x05ab", b"\x0b", b"\x09\x00", b"\x80" * 11], ids=repr
)
def test_invalid_messages_are_refused(message):
    with pytest.raises(ValueError, match=r"truncated|wire type"):
        list(read_fields(message))
