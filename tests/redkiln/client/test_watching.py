import pytest

from redkiln.client.watching import (
    RECONNECT_SECONDS,
    Disconnected,
    Outage,
    Reconnected,
    Snapshot,
    choose_attempt,
)
from redkiln.errors import ConnectionFailed, NotFound, WaitTimeout
from redkiln.status import AttemptStatus
from redkiln.views.job import AttemptView, EventView

JOB_ID = "job_0123456789abcdefghijkl"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr("redkiln.client.watching.RECONNECT_SECONDS", (0.01,))
    monkeypatch.setattr("redkiln.client.watching.NEXT_LOOK_SECONDS", 0.01)


def seqs(updates):
    return [update.seq for update in updates if isinstance(update, EventView)]


def test_a_stream_gives_every_event_and_ends_with_the_job(fake, client):
    updates = list(client.watch(JOB_ID))
    assert seqs(updates) == [1, 2, 3, 4, 5, 6]
    assert any(isinstance(update, Snapshot) for update in updates)


def test_waiting_returns_the_ended_job(fake, client):
    fake.cut_after = [2]
    assert client.wait(JOB_ID).is_terminal


def test_waiting_for_a_job_ends_when_the_time_is_over(fake, client):
    assert client.wait(JOB_ID, timeout_seconds=60).is_terminal
    fake.status = "running"
    with pytest.raises(WaitTimeout, match=r"job flowers is running after 0\.1 s"):
        client.wait(JOB_ID, timeout_seconds=0.1)


def test_a_broken_stream_loses_and_repeats_no_event(fake, client):
    fake.cut_after = [2, 0, 3]
    updates = list(client.watch(JOB_ID))
    assert seqs(updates) == [1, 2, 3, 4, 5, 6]
    kinds = [type(u) for u in updates if isinstance(u, Disconnected | Reconnected)]
    assert kinds == [Disconnected, Reconnected, Disconnected, Reconnected]


def test_a_stream_can_start_after_an_event(client):
    assert seqs(client.watch(JOB_ID, after_seq=4)) == [5, 6]


def test_an_unavailable_service_is_waited_for(fake, client):
    fake.failures = [(503, {}), (502, {})]
    assert seqs(client.watch(JOB_ID)) == [1, 2, 3, 4, 5, 6]


def test_an_unknown_job_is_not_waited_for(client):
    with pytest.raises(NotFound):
        list(client.watch("job_unknown"))


def test_patience_with_an_absent_service_ends():
    now = [0.0]
    outage = Outage(patience_seconds=10, clock=lambda: now[0], sleep=lambda s: None)
    error = ConnectionFailed("http://x", "refused")
    assert outage.note(error) is True
    now[0] = 9
    assert outage.note(error) is False
    now[0] = 11
    with pytest.raises(ConnectionFailed):
        outage.note(error)


def test_waits_grow_and_are_short_again_after_an_outage(monkeypatch):
    monkeypatch.setattr("redkiln.client.watching.RECONNECT_SECONDS", RECONNECT_SECONDS)
    slept = []
    outage = Outage(sleep=slept.append)
    for _ in range(8):
        outage.note(ConnectionFailed("http://x", "refused"))
        outage.wait()
    assert slept == [0.3, 0.5, 1.0, 2.0, 5.0, 5.0, 5.0, 5.0]
    assert outage.end() is True
    assert outage.end() is False


def attempt(number, status):
    return AttemptView(
        id=f"att_{number}",
        number=number,
        status=status,
        worker_id="wrk_1",
        started_at="2026-11-21T09:00:00Z",
    )


LOST, RUNNING = attempt(1, AttemptStatus.LOST), attempt(2, AttemptStatus.RUNNING)


@pytest.mark.parametrize(
    ("attempts", "current", "was_running", "only", "expected"),
    [
        ([], None, True, None, None),
        ([LOST, RUNNING], None, True, None, "att_2"),
        ([LOST, RUNNING], None, True, 1, "att_1"),
        ([LOST], "att_1", True, None, "att_1"),
        ([LOST], "att_1", False, None, None),
        ([LOST, RUNNING], "att_1", True, None, "att_1"),
        ([LOST, RUNNING], "att_1", False, None, "att_2"),
        ([LOST, RUNNING], "att_1", False, 1, None),
        ([LOST, RUNNING], "att_2", False, None, "att_2"),
    ],
)
def test_which_attempts_log_comes_next(attempts, current, was_running, only, expected):
    chosen = choose_attempt(attempts, current, was_running=was_running, only=only)
    assert (chosen.id if chosen else None) == expected


def test_a_followed_log_ends_with_the_job(fake, client):
    assert b"".join(client.logs(JOB_ID, follow=True)) == fake.log


def test_the_tail_of_a_log_is_its_last_lines(client):
    assert b"".join(client.logs(JOB_ID, tail=1)) == b"second line\n"
