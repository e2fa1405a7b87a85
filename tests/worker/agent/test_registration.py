import os
from types import SimpleNamespace

import pytest

from redkiln.protocol import HelloResponse
from worker.agent import registration
from worker.agent.client import ProtocolMismatch, Refused, ServiceAway, Superseded
from worker.agent.inventory import Inventory
from worker.agent.offers import NoClaim
from worker.agent.registration import NO_BROKER_POLL_SECONDS, Registration
from worker.settings import WorkerSettings

OFFERS = SimpleNamespace(kinds=["cpu"], arches=[], busy_engines=[])


class Service:
    """Answers with what is set, or raises it."""

    def __init__(self):
        self.answer = HelloResponse(poll_seconds=5.0)
        self.heard = []

    def hello(self, request):
        return self._take(request)

    claim = hello

    def _take(self, request):
        self.heard.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def service():
    return Service()


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(registration.time, "monotonic", lambda: now.seconds)
    return now


@pytest.fixture
def failures():
    return []


@pytest.fixture
def known(tmp_path, service, failures):
    settings = WorkerSettings(worker_dir=tmp_path, broker_url="redis://127.0.0.1:1/0")
    return Registration(
        service,
        settings,
        worker_id="wrk_00000001",
        boot_id="boot",
        inventory=Inventory(),
        fail=failures.append,
    )


def test_a_welcome_sets_the_poll_interval_and_writes_the_ready_file(known, service, tmp_path):
    assert not known.is_known
    assert known.greet(slots=2)
    assert known.is_known
    assert known.poll_seconds == 5.0
    assert (service.heard[0].worker_id, service.heard[0].slots) == ("wrk_00000001", 2)
    assert (tmp_path / "ready").read_text() == f"{os.getpid()}\n"


def test_without_a_doorbell_the_worker_polls_more_often(tmp_path, service):
    alone = Registration(
        service,
        WorkerSettings(worker_dir=tmp_path, broker_url=None),
        worker_id="wrk_00000001",
        boot_id="boot",
        inventory=Inventory(),
        fail=pytest.fail,
    )
    assert alone.greet(slots=1)
    assert alone.poll_seconds == NO_BROKER_POLL_SECONDS


def test_the_hello_to_an_unreachable_service_is_repeated(known, service, failures, tmp_path):
    service.answer = ServiceAway("connection refused")
    assert not known.greet(slots=1)
    assert not failures
    assert not (tmp_path / "ready").exists()


@pytest.mark.parametrize("ask", [lambda k: k.greet(slots=1), lambda k: k.claim(OFFERS, hint=None)])
def test_another_protocol_version_is_not_retried(known, service, failures, ask):
    service.answer = ProtocolMismatch("the service speaks protocol 9")
    assert ask(known) in (False, NoClaim.NO_JOB)
    assert failures == [
        "the service speaks protocol 9; install the same release of the service and the worker"
    ]


def test_a_claim_without_an_answer_is_repeated_with_its_id(known, service):
    known.greet(slots=1)
    service.answer = ServiceAway("timed out")
    assert known.claim(OFFERS, hint=None) is NoClaim.UNANSWERED
    service.answer = None
    known.claim(OFFERS, hint="job_1")
    known.claim(OFFERS, hint=None)
    first, again, next_one = service.heard[1:]
    assert first.claim_id == again.claim_id != next_one.claim_id
    assert again.hint == "job_1"


def test_after_a_refused_claim_the_next_one_has_a_new_id(known, service, failures):
    known.greet(slots=1)
    service.answer = Refused(422, code="invalid", detail="no such kind")
    assert known.claim(OFFERS, hint=None) is NoClaim.NO_JOB
    known.claim(OFFERS, hint=None)
    assert service.heard[1].claim_id != service.heard[2].claim_id
    assert known.is_known
    assert not failures


def test_a_forgotten_worker_says_hello_again_but_not_twice_in_a_minute(
    known, service, failures, clock
):
    known.greet(slots=1)
    clock.seconds += registration.FORGOTTEN_SECONDS + 1
    service.answer = Superseded("unknown worker")
    assert known.claim(OFFERS, hint=None) is NoClaim.NO_JOB
    assert not known.is_known
    assert not failures
    service.answer = HelloResponse(poll_seconds=5.0)
    assert known.greet(slots=1)
    clock.seconds += 1
    service.answer = Superseded("unknown worker")
    known.claim(OFFERS, hint=None)
    (message,) = failures
    assert "another worker has the id wrk_00000001" in message
    assert "REDKILN_WORKER_DIR" in message
