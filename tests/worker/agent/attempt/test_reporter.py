import time

import pytest

from redkiln.events import EventKind, EventWriter
from redkiln.protocol import ReportResponse
from tests.waiting import wait_for
from worker.agent.attempt import spool
from worker.agent.attempt.reporter import Reporter
from worker.agent.client import Refused, SequenceGap, ServiceAway, Superseded
from worker.agent.stopping import StopReason, StopSignal
from worker.jobdir import JobDir


class Receiver:
    """The service's side: takes events in by number, and can fail."""

    def __init__(self):
        self.texts, self.log, self.times = [], b"", []
        self.telemetry = []
        self.errors = []
        self.command = "continue"
        self.log_full = False
        self.ack_limit = None

    def report(self, request):
        self.times.append(time.monotonic())
        if self.errors:
            raise self.errors.pop(0)
        self.telemetry.append(request.telemetry)
        if request.first_seq > len(self.texts) + 1:
            raise SequenceGap(len(self.texts) + 1)
        new = request.events[len(self.texts) + 1 - request.first_seq :][: self.ack_limit]
        self.texts.extend(event.data["text"] for event in new)
        if request.log is not None and request.log.offset == len(self.log):
            self.log += request.log.data
        return ReportResponse(
            acked_seq=len(self.texts),
            log_size=len(self.log),
            log_full=self.log_full,
            lease_seconds=5,
            report_seconds=0.3,
            command=self.command,
        )


@pytest.fixture
def stop():
    signal = StopSignal()
    yield signal
    signal.close()


@pytest.fixture
def receiver():
    return Receiver()


@pytest.fixture
def jobdir(tmp_path):
    return JobDir(tmp_path)


@pytest.fixture
def reporter(receiver, jobdir, stop):
    reporter = Reporter(receiver, jobdir, stop, report_seconds=0.3)
    yield reporter
    reporter.halt()


def say(jobdir, *texts):
    with EventWriter(jobdir.events_path) as events:
        for text in texts:
            events.write(EventKind.MESSAGE, text=text)


def test_an_empty_report_is_a_heartbeat(reporter, receiver):
    reporter.start()
    wait_for(lambda: len(receiver.times) >= 3)
    assert receiver.times[2] - receiver.times[1] >= 0.28


def test_a_change_of_state_is_sent_at_once(reporter, receiver, jobdir):
    reporter.report_seconds = 60
    reporter.start()
    wait_for(lambda: receiver.times)
    time.sleep(0.15)
    reporter.report_seconds = 60
    say(jobdir, "now")
    began = time.monotonic()
    reporter.hurry()
    wait_for(lambda: receiver.texts == ["now"])
    assert time.monotonic() - began < 0.1


def test_news_is_sent_in_batches(receiver, jobdir, stop):
    reporter = Reporter(receiver, jobdir, stop, report_seconds=0.3)
    reporter.start()
    for number in range(40):
        say(jobdir, str(number))
        time.sleep(0.01)
    reporter.halt()
    reporter.flush()
    assert receiver.texts == [str(number) for number in range(40)]
    assert len(receiver.times) < 8


def test_the_last_events_are_flushed(reporter, receiver, jobdir):
    say(jobdir, "a", "b")
    jobdir.log_path.write_bytes(b"x" * 600_000)
    reporter.halt()
    reporter.flush()
    assert (receiver.texts, len(receiver.log), reporter.last_seq) == (["a", "b"], 600_000, 2)


def test_an_incomplete_line_does_not_delay_the_end(reporter, receiver, jobdir):
    say(jobdir, "a")
    with jobdir.events_path.open("ab") as file:
        file.write(b'{"half":')
    reporter.flush()
    assert receiver.texts == ["a"]


def test_a_service_that_is_away_is_asked_again(reporter, receiver, jobdir, stop):
    receiver.errors = [ServiceAway("x"), ServiceAway("y")]
    say(jobdir, "a")
    reporter.start()
    wait_for(lambda: receiver.texts == ["a"])
    assert stop.reason is None


def test_events_are_parsed_once_while_the_service_is_away(reporter, receiver, jobdir, monkeypatch):
    parsed = []
    parse = spool.parse_event
    monkeypatch.setattr(spool, "parse_event", lambda raw: parsed.append(raw) or parse(raw))
    receiver.errors = [ServiceAway("x") for _ in range(3)]
    say(jobdir, "a", "b")
    reporter.start()
    wait_for(lambda: receiver.texts == ["a", "b"])
    assert len(receiver.times) == 4
    assert len(parsed) == 2


def test_a_sequence_gap_is_filled_from_the_file(reporter, receiver, jobdir):
    say(jobdir, "a", "b")
    reporter.flush()
    receiver.texts = receiver.texts[:1]  # its database was put back
    say(jobdir, "c")
    reporter.flush()
    assert receiver.texts == ["a", "b", "c"]


def test_received_but_unacknowledged_events_are_not_duplicated(reporter, receiver, jobdir):
    say(jobdir, "a", "b")
    receiver.texts = ["a", "b"]  # the answer to an earlier report was lost
    say(jobdir, "c")
    reporter.flush()
    assert receiver.texts == ["a", "b", "c"]


def test_an_acknowledged_part_is_not_sent_again(reporter, receiver, jobdir):
    receiver.ack_limit = 2
    say(jobdir, "a", "b", "c", "d", "e")
    reporter.flush()
    assert receiver.texts == ["a", "b", "c", "d", "e"]


def test_a_full_log_is_no_longer_sent_and_the_loss_is_counted(reporter, receiver, jobdir):
    receiver.log_full = True
    jobdir.log_path.write_bytes(b"x" * 10)
    reporter.flush()
    jobdir.log_path.write_bytes(b"x" * 25)
    reporter.flush()
    assert len(receiver.log) == 10
    assert reporter._build([]).dropped_log_bytes == 15


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Superseded("x"), StopReason.SUPERSEDED),
        (Refused(422, code="invalid", detail="x"), StopReason.REFUSED),
    ],
)
def test_a_refusal_stops_the_attempt(reporter, receiver, stop, error, reason):
    receiver.errors = [error]
    reporter.start()
    wait_for(lambda: stop.reason == reason)
    time.sleep(0.4)
    assert len(receiver.times) == 1


def test_a_cancel_comes_back_with_a_report(reporter, receiver, stop):
    receiver.command = "cancel"
    reporter.start()
    wait_for(lambda: stop.reason == StopReason.CANCELLED)


def test_telemetry_is_sent_with_reports_and_dropped_once_it_has_arrived(reporter, receiver):
    reporter.series.add({"gpu/0/power_watts": 200.0}, at_ms=1000)
    receiver.errors = [ServiceAway("not now")]
    reporter.start()
    wait_for(lambda: any(receiver.telemetry))
    assert [told for told in receiver.telemetry if told] == [{"gpu/0/power_watts": [(1000, 200.0)]}]
    assert reporter.series.peek() == {}


def test_telemetry_is_not_sent_with_every_report(receiver, jobdir, stop):
    now = iter(range(100, 200, 2))
    reporter = Reporter(receiver, jobdir, stop, report_seconds=2.0, clock=lambda: next(now))
    for second in range(3):
        reporter.series.add({"host/cpu_ratio": 0.5}, at_ms=1000 * second)
        say(jobdir, str(second))
        reporter._send()
    assert [len(told.get("host/cpu_ratio", ())) for told in receiver.telemetry] == [1, 0, 0]
    reporter.flush()
    assert len(receiver.telemetry[-1]["host/cpu_ratio"]) == 2


def test_events_are_reported_once_they_are_acknowledged(reporter, receiver, jobdir):
    say(jobdir, "a", "b")
    end_offset = jobdir.events_path.stat().st_size
    receiver.ack_limit = 1
    receiver.errors = [ServiceAway("x")]
    assert not reporter.wait_reported(end_offset, 0)
    reporter.start()
    assert reporter.wait_reported(end_offset, 10)
    assert receiver.texts == ["a", "b"]


def test_nobody_waits_for_a_reporter_that_has_ended(reporter, receiver, jobdir):
    say(jobdir, "a")
    receiver.errors = [Refused(422, code="x", detail="x")]
    reporter.start()
    assert reporter.wait_reported(jobdir.events_path.stat().st_size, 10)
    assert receiver.texts == []
