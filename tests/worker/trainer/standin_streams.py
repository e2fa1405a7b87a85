"""Streams of the stand-in for a GPU, which find work that does not wait for another stream's.

All work is done at once. But each tensor remembers after how many operations of which stream it
exists, and a stream knows how far it has waited for each other one. Using a tensor too early, which
on a GPU reads whatever the memory holds, is an error here.
"""

import contextlib
import itertools
import threading
import time

local = threading.local()


class Stream:
    """Operations in their order; `seen` has how many of each stream it has waited for, by name."""

    names = itertools.count()

    def __init__(self, _device=None):
        self.name = next(self.names)
        self.num_done = 0
        self.seen = {}

    def advance(self):
        """Count an operation; return what its result has to remember, also in a deep copy."""
        self.num_done += 1
        return self.name, self.num_done

    def has(self, made):
        """Whether what another operation made exists for the next operation of this stream."""
        name, number = made
        return name == self.name or max(self.seen.get(name, 0), HOST.get(name, 0)) >= number

    def wait_event(self, event):
        """Let all later operations wait for an event."""
        _raise_to(self.seen, event.reached)


class Event:
    """A point in a stream, with the time at which it was recorded."""

    def __init__(self, **_):
        self.at, self.reached = None, {}

    def record(self, stream=None):
        stream = stream or current_stream()
        self.at = time.perf_counter()
        self.reached = {**stream.seen, stream.name: stream.num_done}

    def synchronize(self):
        """Wait in Python, so that whatever it queues from now on comes later."""
        _raise_to(HOST, self.reached)

    def elapsed_time(self, end):
        return (end.at - self.at) * 1000


DEFAULT = Stream()
HOST = {}


def current_stream(*_):
    """Return the stream of this thread."""
    return getattr(local, "stream", DEFAULT)


@contextlib.contextmanager
def use_stream(stream):
    """Run the block's operations on a stream."""
    before = current_stream()
    local.stream = stream
    try:
        yield
    finally:
        local.stream = before


def check_order(tensors):
    """Raise an error if one of the tensors may not exist yet for the current stream."""
    stream = current_stream()
    if not all(stream.has(tensor.made) for tensor in tensors):
        raise RuntimeError("A tensor is used on a stream that has not waited for its own stream.")


def _raise_to(known, reached):
    for name, number in reached.items():
        known[name] = max(known.get(name, 0), number)
