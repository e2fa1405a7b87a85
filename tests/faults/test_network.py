"""The network between a worker and its service fails; nothing is lost or counted twice."""

import time

import pytest

from tests.faults.conftest import LEASE_SECONDS, LOG_QUOTA_BYTES
from tests.faults.proxy import (
    SendLate,
    Swallow,
    lose_answer,
    lossy,
    only,
    send_twice,
)

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("faults")]


CALLS = ("/claim", "/report", "PUT /v1/attempts", "/checkpoints", "/finish")
"""The requests of an attempt: part of the method and path of each."""


def once_each(act):
    """A rule that breaks the first request of each kind."""
    rules = [only(call, act, times=1) for call in CALLS]

    def rule(exchange):
        for call, one in zip(CALLS, rules, strict=True):
            if call in exchange.name:
                one(exchange)
                return
        exchange.pass_on()

    return rule


def assert_each_was_hit(hits):
    assert [call for call in CALLS if not any(call in hit for hit in hits)] == []


@pytest.mark.parametrize("act", [lose_answer, send_twice], ids=["lost answer", "twice"])
def test_every_request_of_an_attempt_may_lose_its_answer_or_arrive_twice(faulty, act):
    with faulty.proxy.breaking(once_each(act)) as hits:
        job_id = faulty.submit(epochs=3)
        faulty.succeed_whole(job_id, steps=30)
    assert_each_was_hit(hits)
    assert len(faulty.committed_steps(job_id)) == len(set(faulty.committed_steps(job_id)))
    assert faulty.artifact_names(job_id) >= {"model.onnx", "report.md", "trainer.log"}


def test_reports_that_arrive_late_change_nothing(faulty):
    late = SendLate("/report")
    with faulty.proxy.breaking(late):
        job_id = faulty.submit(epochs=8)
        faulty.succeed_whole(job_id, steps=80)
    assert late.late_statuses
    assert set(late.late_statuses) <= {200, 409}


def test_a_bad_network_costs_time_and_no_lease(faulty):
    with faulty.proxy.breaking(lossy(share=0.3, seconds=0.5, seed=13)) as hits:
        job_id = faulty.submit(epochs=10)
        faulty.succeed_whole(job_id, steps=100)
    assert len(hits) >= 2


def test_a_network_that_swallows_everything_is_an_absent_service(faulty):
    job_id = faulty.submit(epochs=30)
    faulty.wait_for_training(job_id)
    swallow = Swallow()
    with faulty.proxy.breaking(swallow):
        began = time.monotonic()
        log = faulty.stack.workers[0].read_log
        before = log().count("ReadTimeout")
        faulty.wait_for(lambda: log().count("ReadTimeout") > before)
        assert time.monotonic() - began > 5
        swallow.heal()
    faulty.wait_for_success(job_id)
    assert faulty.statuses(job_id) in (["succeeded"], ["lost", "succeeded"])
    faulty.assert_whole(job_id, steps=300)


def test_a_reset_in_the_middle_of_an_upload_leaves_nothing_half(faulty):
    staging = faulty.stack.state_dir / "staging"

    def cut(exchange):
        exchange.send_part(len(exchange.body) // 2)
        exchange.reset()

    with faulty.proxy.breaking(only("PUT /v1/attempts", cut, times=3)) as hits:
        job_id = faulty.submit(epochs=3)
        faulty.succeed_whole(job_id, steps=30)
    assert len(hits) == 3
    faulty.wait_for(lambda: not list(staging.glob("*/*")))
    assert faulty.artifact_names(job_id) >= {"model.onnx", "report.md", "trainer.log"}


def test_an_upload_with_a_flipped_bit_is_sent_again(faulty):
    statuses = []

    def flip(exchange):
        answer = exchange.forward(bytes([exchange.body[0] ^ 1]) + exchange.body[1:])
        statuses.append(answer[0])
        exchange.answer(*answer)

    with faulty.proxy.breaking(only("PUT /v1/attempts", flip, times=1)):
        job_id = faulty.submit(epochs=3)
        faulty.wait_for_success(job_id)
    assert statuses == [422]
    faulty.assert_whole(job_id, steps=30)


def test_slow_uploads_and_clients_hold_up_no_report(faulty):
    """An upload that takes seconds, and 50 clients that send a header byte by byte."""

    def crawl(exchange):
        time.sleep(4)
        exchange.pass_on()

    slow = [slow_client(faulty) for _ in range(50)]
    try:
        with faulty.proxy.breaking(only("PUT /v1/attempts", crawl, times=2)):
            job_id = faulty.submit(epochs=10)
            faulty.wait_for(lambda: faulty.proxy.hits)
            step = faulty.client.job(job_id).progress
            faulty.wait_for(lambda: faulty.client.job(job_id).progress != step, seconds=20)
            for connection in slow:
                connection.send(b"a")  # each is still open, and has sent half a request
            faulty.succeed_whole(job_id, steps=100)
    finally:
        for connection in slow:
            connection.close()


def slow_client(site):
    import socket
    from urllib.parse import urlsplit

    place = urlsplit(site.stack.url)
    connection = socket.create_connection((place.hostname, place.port))
    connection.send(b"GET /v1/jobs HT")
    return connection


def test_a_service_that_is_away_longer_than_a_lease_loses_no_attempt_and_no_event(faulty):
    job_id = faulty.submit(epochs=40)
    faulty.wait_for_training(job_id)
    service = faulty.stack.service
    service.kill()
    killed_at = time.monotonic()
    events = next(faulty.stack.worker_dir().glob("jobs/*/events.jsonl"))
    before = events.stat().st_size
    faulty.wait_for(lambda: time.monotonic() - killed_at > LEASE_SECONDS + 1)
    assert events.stat().st_size > before  # training continued
    service.restart()
    faulty.stack.wait_for_service()
    # Housekeeping, which would take the attempt away, runs each second.
    faulty.succeed_whole(job_id, steps=400)


def test_a_worker_that_cannot_send_keeps_all_events_and_bounds_the_log(faulty):
    chatter = {"chatter_bytes": "5000"}
    with faulty.proxy.breaking(only("/report", lambda exchange: exchange.reset())) as hits:
        job_id = faulty.submit(epochs=6, metadata=chatter)
        finished = faulty.stack.worker_dir() / "jobs"
        faulty.wait_for(lambda: list(finished.glob("*/out/artifacts.json")))
    assert hits
    faulty.succeed_whole(job_id, steps=60)
    (attempt,) = faulty.client.job(job_id).attempts
    stored = faulty.stack.state_dir / "logs" / f"{attempt.id}.log"
    assert stored.stat().st_size == LOG_QUOTA_BYTES
    assert attempt.lost_log_bytes >= 60 * 5000 - LOG_QUOTA_BYTES
