import itertools
import select

import pytest

from worker.agent.stopping import Stopped, StopReason, StopSignal


@pytest.fixture
def stop():
    signal = StopSignal()
    yield signal
    signal.close()


def is_readable(stop):
    return bool(select.select([stop], [], [], 0)[0])


@pytest.mark.parametrize(("first", "second"), list(itertools.product(StopReason, repeat=2)))
def test_the_highest_reason_wins(stop, first, second):
    stop.request(first)
    stop.request(second)
    assert stop.reason == max(first, second)


def test_each_higher_reason_is_seen_once(stop):
    assert not is_readable(stop)
    stop.request(StopReason.SHUTDOWN)
    assert is_readable(stop)
    stop.clear()
    stop.request(StopReason.STALLED)
    assert not is_readable(stop)
    stop.request(StopReason.CANCELLED)
    assert is_readable(stop)


def test_a_wait_ends_when_it_is_asked_to(stop):
    stop.wait(0.01)
    stop.request(StopReason.CANCELLED)
    with pytest.raises(Stopped):
        stop.wait(60)


def test_lower_reasons_are_ignored_by_the_check(stop):
    stop.request(StopReason.SHUTDOWN)
    stop.check(least=StopReason.CANCELLED)
    with pytest.raises(Stopped):
        stop.check()


def test_a_request_after_the_end_is_harmless(stop):
    stop.close()
    stop.request(StopReason.SUPERSEDED)
    with pytest.raises(ValueError, match="has ended"):
        stop.fileno()
