"""Waiting for what other threads and processes do, and time that need not be waited for."""

import time

import psutil

LONGEST_INTERVAL_SECONDS = 0.4


def wait_for(condition, *, seconds=120.0, interval_seconds=0.005):
    """Ask until the answer is true, and return it.

    The longer it takes, the more rarely it asks, because asking takes CPU time away from what is
    waited for; the answer comes at most a tenth later.
    """
    began = time.monotonic()
    while not (result := condition()):
        waited = time.monotonic() - began
        assert waited < seconds, "what was waited for did not happen"
        time.sleep(min(max(interval_seconds, waited / 10), LONGEST_INTERVAL_SECONDS))
    return result


class Clock:
    """A clock that stands still; a test moves `now`, in seconds."""

    def __init__(self, now=0.0):
        self.now = now

    def __call__(self):
        return self.now


def is_alive(pid):
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
