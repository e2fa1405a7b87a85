import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from redkiln.protocol import StatusResponse
from redkiln.views.doctor import DoctorReport
from redkiln.views.hardware import GpuFacts, GpuState, GpuTelemetry
from worker.agent.client import Refused, ServiceAway, Superseded
from worker.agent.status import StatusReporter, drop_old_telemetry, is_news

DOCTOR = DoctorReport(at=datetime(2026, 1, 1, tzinfo=UTC), hostname="bench")


def gpu(*, at=None, **readings):
    telemetry = GpuTelemetry(at=at, **readings) if readings else None
    return GpuState(key="0000:03:00.0", facts=GpuFacts(gfx="gfx1100", telemetry=telemetry))


class Receiver:
    def __init__(self):
        self.requests, self.errors = [], []
        self.came = threading.Condition()

    def report_status(self, request):
        with self.came:
            self.requests.append(request)
            self.came.notify_all()
        if self.errors:
            raise self.errors.pop(0)
        return StatusResponse(status_seconds=60)

    def wait_for(self, count):
        with self.came:
            assert self.came.wait_for(lambda: len(self.requests) >= count, timeout=60)


@pytest.fixture
def receiver():
    return Receiver()


@pytest.fixture
def gpus():
    return [gpu(power_watts=200.0)]


@pytest.fixture
def reporter(receiver, gpus):
    reporter = StatusReporter(
        receiver,
        worker_id="wrk_00000001",
        boot_id="boot",
        read_gpus=lambda: list(gpus),
        read_cost=lambda: 0.0004,
    )
    yield reporter
    reporter.halt()


def test_no_status_is_sent_before_the_welcome_and_one_right_after_it(reporter, receiver):
    reporter.start()
    time.sleep(0.05)
    assert receiver.requests == []
    reporter.welcome()
    receiver.wait_for(1)
    assert receiver.requests[0].gpus[0].facts.telemetry.power_watts == 200.0
    assert receiver.requests[0].sampling_seconds == 0.0004


def test_a_host_without_sensors_sends_its_status_once(reporter, receiver, gpus):
    gpus[:] = [gpu()]
    assert [reporter.send() for _ in range(3)] == [True, False, False]
    gpus.clear()
    assert reporter.send()


def test_sensor_readings_are_sent_every_time_with_increasing_numbers(reporter, receiver):
    for _ in range(3):
        assert reporter.send()
    numbers = [request.seq for request in receiver.requests]
    assert numbers == sorted(set(numbers))


def test_the_doctors_report_is_sent_until_it_has_arrived(reporter, receiver):
    reporter.report_doctor(DOCTOR)
    receiver.errors = [ServiceAway("not now")]
    with pytest.raises(ServiceAway):
        reporter.send()
    reporter.send()
    reporter.send()
    assert [request.doctor for request in receiver.requests] == [DOCTOR, DOCTOR, None]


def test_a_new_welcome_resends_the_whole_status(reporter, receiver, gpus):
    gpus[:] = [gpu()]
    reporter.start()
    for count in (1, 2):
        reporter.welcome()
        receiver.wait_for(count)


@pytest.mark.parametrize(
    "error", [Refused(404, code="not_found", detail="what?"), Superseded("say hello first")]
)
def test_a_service_that_rejects_statuses_gets_none_until_the_next_hello(reporter, receiver, error):
    receiver.errors = [error]
    reporter.start()
    reporter.welcome()
    receiver.wait_for(1)
    reporter.hurry()
    time.sleep(0.05)
    assert len(receiver.requests) == 1
    reporter.welcome()
    receiver.wait_for(2)


def test_a_failed_reading_does_not_end_the_status_thread(receiver):
    broken = [ValueError("a damaged tree")]

    def read_gpus():
        if broken:
            raise broken.pop()
        return [gpu()]

    reporter = StatusReporter(receiver, worker_id="wrk_00000001", boot_id="b", read_gpus=read_gpus)
    reporter.start()
    reporter.welcome()
    while broken:
        time.sleep(0.005)
    reporter.hurry()
    receiver.wait_for(1)
    reporter.halt()


def test_an_old_reading_is_not_sent_as_live():
    now = datetime.now(UTC)
    state = gpu(at=now - timedelta(seconds=20), power_watts=1.0)
    assert drop_old_telemetry(state, oldest=now - timedelta(seconds=30)) == state
    assert drop_old_telemetry(state, oldest=now).facts.telemetry is None


def test_only_a_changed_status_is_news(reporter, receiver, gpus):
    gpus[:] = [gpu()]
    reporter.send()
    (first,) = receiver.requests
    same = first.model_copy(update={"seq": 9})
    assert not is_news(same, first)
    assert is_news(same.model_copy(update={"doctor": DOCTOR}), first)
    assert is_news(same.model_copy(update={"gpus": []}), first)


def test_gpus_to_keep_free_are_passed_on_and_confirmed_at_once(receiver, gpus, monkeypatch):
    kept = []
    reporter = StatusReporter(
        receiver,
        worker_id="wrk_00000001",
        boot_id="boot",
        read_gpus=lambda: list(gpus),
        keep_free=lambda keys: kept.append(keys) or len(kept) == 1,
    )
    answer = StatusResponse(status_seconds=60, kept_free=["0000:03:00.0"])
    report = receiver.report_status
    monkeypatch.setattr(receiver, "report_status", lambda request: report(request) and answer)
    reporter.start()
    reporter.welcome()
    receiver.wait_for(2)
    reporter.halt()
    assert kept == [["0000:03:00.0"]] * 2
