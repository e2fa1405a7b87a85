"""Messages from the end of a job to their delivery."""

import http.server
import threading
from datetime import timedelta

import pytest
from sqlmodel import select

from service.database import read_now
from service.housekeeping import forget_notices
from service.notices.messages import sign
from service.notices.models import Notice
from service.notices.rules import MAX_TRIES, list_notices, pause_seconds
from service.settings import Settings
from tests.waiting import wait_for


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.path, dict(self.headers), body))
        answers = self.server.answers
        status = answers.pop(0) if answers else 204
        self.send_response(status)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def receiver():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.received, server.answers = [], []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def settings(state_dir, receiver):
    return Settings(
        state_dir=state_dir,
        min_free_bytes=0,
        reap_seconds=3600,
        notice_urls=f"http://localhost:{receiver.server_port}/hook",
        notice_private="on",
    )


def notices_of(client):
    return client.get("/v1/notices").json()["data"]


def make_due(services):
    def change(session):
        for notice in session.exec(select(Notice)).all():
            notice.due_at = read_now(session) - timedelta(seconds=1)

    services.database.write(change)
    services.notices.wake()


def test_the_end_of_a_job_is_sent_once_and_signed(receiver, submit, worker, client, settings):
    job_id = submit(name="flowers")["id"]
    worker.claim().fail(retryable=False)
    wait_for(lambda: [notice["status"] for notice in notices_of(client)] == ["sent"])
    ((path, headers, body),) = receiver.received
    assert path == "/hook"
    assert headers["Host"] == f"localhost:{receiver.server_port}"
    seconds = int(headers["Redkiln-Signature"].split(",")[0].removeprefix("t="))
    secret = (settings.keys_dir / "notices.secret").read_text().strip().encode()
    assert headers["Redkiln-Signature"] == sign(body, secret=secret, seconds=seconds)
    (notice,) = notices_of(client)
    assert (notice["job_id"], notice["event"], notice["num_tries"]) == (job_id, "failed", 1)


def test_a_message_that_was_not_delivered_is_tried_again(
    receiver, submit, worker, client, services
):
    receiver.answers += [500, 302]
    submit()
    worker.claim().succeed()
    for tries, error in ((1, "localhost answered 500"), (2, "localhost answered 302")):
        wait_for(lambda: notices_of(client)[0]["error"] == error)  # noqa: B023  used at once
        (notice,) = notices_of(client)
        assert (notice["status"], notice["num_tries"]) == ("pending", tries)
        make_due(services)
    wait_for(lambda: notices_of(client)[0]["status"] == "sent")
    ids = {headers["Redkiln-Id"] for _, headers, _ in receiver.received}
    assert (len(receiver.received), len(ids)) == (3, 1)


def test_a_job_that_does_not_end_is_not_announced(submit, worker, client):
    submit()
    worker.claim()
    assert notices_of(client) == []


def test_a_cancelled_job_and_every_end_are_announced(submit, client):
    job_ids = [submit()["id"] for _ in range(3)]
    for job_id in job_ids:
        client.post(f"/v1/jobs/{job_id}/cancel")
    wait_for(lambda: [notice["status"] for notice in notices_of(client)] == ["sent"] * 3)
    assert {notice["job_id"] for notice in notices_of(client)} == set(job_ids)
    page = client.get("/v1/notices?limit=2").json()
    rest = client.get(f"/v1/notices?limit=2&after={page['last_id']}").json()
    assert (page["has_more"], len(rest["data"]), rest["has_more"]) == (True, 1, False)


def test_a_test_message_shows_which_target_works(receiver, client):
    receiver.answers.append(404)
    (first,) = client.post("/v1/notices/test").json()
    (second,) = client.post("/v1/notices/test").json()
    assert (first["is_sent"], first["error"]) == (False, "localhost answered 404")
    assert (second["is_sent"], second["error"]) == (True, None)
    assert notices_of(client) == []


def test_the_log_is_forgotten_after_a_month(submit, client, services):
    client.post(f"/v1/jobs/{submit()['id']}/cancel")

    def age(session):
        for notice in session.exec(select(Notice)).all():
            notice.created_at = read_now(session) - timedelta(days=31)

    wait_for(lambda: notices_of(client)[0]["status"] == "sent")
    services.database.write(age)
    forget_notices(services)
    assert services.database.read(lambda s: list_notices(s, after=None, limit=9)) == []


def test_pauses_grow_to_hours_and_end():
    pauses = [pause_seconds(tries) for tries in range(1, MAX_TRIES)]
    assert pauses == sorted(pauses)
    assert 3 * 3600 < sum(pauses) < 12 * 3600
