import signal

import pytest

from native import up
from native.__main__ import EXIT_INTERRUPTED, main


class UpStack:
    """A stack that is up at once, and records that it was stopped."""

    stopped = 0

    def __init__(self, _state_dir, **_settings):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        UpStack.stopped += 1


@pytest.fixture
def stack(monkeypatch):
    monkeypatch.setattr(up, "Stack", UpStack)
    monkeypatch.setattr(up, "ensure_page", lambda: None)
    monkeypatch.setattr(up, "describe", lambda _stack: "up")
    monkeypatch.setattr(UpStack, "stopped", 0)
    known = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield UpStack
    for number, handler in known.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 0), (signal.SIGTERM, EXIT_INTERRUPTED), (signal.SIGHUP, EXIT_INTERRUPTED)],
)
def test_a_stack_that_ctrl_c_stops_has_succeeded(monkeypatch, stack, number, status):
    monkeypatch.setattr(up, "watch", lambda _stack: signal.raise_signal(number))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main(["up"]) == status
    finally:
        signal.signal(signal.SIGINT, before)
    assert stack.stopped == 1
