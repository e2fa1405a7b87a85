import socket
import time

import pytest

from service.queue import Doorbell
from tests.waiting import wait_for


@pytest.fixture
def hung_broker():
    """A broker that accepts connections but never responds."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0"


@pytest.fixture
def absent_broker(tmp_path):
    return f"redis+socket://{tmp_path}/no.sock"


def test_without_a_broker_nothing_is_sent_and_nothing_waits():
    doorbell = Doorbell(None)
    doorbell.start()
    doorbell.ring({"job_1"})
    doorbell.close()
    assert doorbell.state == "off"


@pytest.mark.parametrize("broker", ["hung_broker", "absent_broker"])
def test_a_broker_that_is_away_or_hangs_delays_nobody(broker, request):
    doorbell = Doorbell(request.getfixturevalue(broker))
    doorbell.start()
    started = time.monotonic()
    for number in range(1000):
        doorbell.ring({f"job_{number}"})
    assert time.monotonic() - started < 0.5
    wait_for(lambda: doorbell.state == "away")
    started = time.monotonic()
    doorbell.close()
    assert time.monotonic() - started < 5


def test_more_messages_than_fit_are_dropped(absent_broker, monkeypatch):
    monkeypatch.setattr("service.queue._MAX_WAITING", 3)
    doorbell = Doorbell(absent_broker)
    doorbell.start()
    doorbell.ring({f"job_{number:03}" for number in range(100)})
    doorbell.ring({"job_000", "job_999"})
    assert doorbell.num_waiting == 3
    doorbell.close()
