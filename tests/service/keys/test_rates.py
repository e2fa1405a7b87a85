import httpx
import pytest

from redkiln.tls import tls_for
from service.app import create_app
from service.errors import TooManyRequests
from service.keys.caller import Caller
from service.keys.rates import RateLimiter
from service.keys.rules import create_key
from tests.waiting import Clock

ANNA, BEN = Caller("key_a", "user"), Caller("key_b", "user")


def test_a_key_may_send_a_burst_and_then_its_rate_whatever_others_send():
    clock = Clock(0.0)
    limiter = RateLimiter(per_second=2, burst=3, clock=clock)
    for _ in range(3):
        limiter.take(ANNA)
    with pytest.raises(TooManyRequests) as refused:
        limiter.take(ANNA)
    assert refused.value.headers == {"Retry-After": "1"}
    limiter.take(BEN)
    clock.now += 0.5
    limiter.take(ANNA)
    with pytest.raises(TooManyRequests):
        limiter.take(ANNA)
    clock.now += 100
    for _ in range(3):
        limiter.take(ANNA)
    with pytest.raises(TooManyRequests):
        limiter.take(ANNA)


def test_full_buckets_are_forgotten_when_there_are_many(monkeypatch):
    monkeypatch.setattr("service.keys.rates._CAPACITY", 2)
    clock = Clock(0.0)
    limiter = RateLimiter(per_second=1, burst=1, clock=clock)
    limiter.take(Caller("old", "user"))
    clock.now += 0.5
    limiter.take(ANNA)
    clock.now += 0.6
    limiter.take(BEN)
    assert set(limiter._buckets) == {"key_a", "key_b"}
    with pytest.raises(TooManyRequests):
        limiter.take(ANNA)  # its bucket was not full, so it was kept


def test_each_request_counts_once_and_the_answer_says_when_to_come_again(settings, serve):
    limits = {"auth": "keys", "requests_per_second": 0.01, "request_burst": 3}
    app = create_app(settings.model_copy(update=limits))
    url, _ = serve(app)
    services = app.state.services
    key = services.database.write(lambda s: create_key(s, name="k", scope="user"))
    headers = {"Authorization": f"Bearer {key.secret}"}
    with httpx.Client(base_url=url, verify=tls_for(url), headers=headers) as client:
        answers = [
            client.get("/v1/jobs"),
            # A body is checked by the gate, too.
            client.post("/v1/jobs", json={"dataset": "builtin:digits"}),
            client.get("/v1/jobs"),
            client.get("/v1/jobs"),
        ]
        assert [answer.status_code for answer in answers] == [200, 202, 200, 429]
        assert 0 < int(answers[3].headers["Retry-After"]) <= 100
        assert answers[3].json()["code"] == "too_many_requests"
        assert client.get("/healthz").status_code == 200
