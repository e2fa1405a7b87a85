import httpx
import pytest
import sqlalchemy as sa

from redkiln.tls import tls_for
from service.app import create_app
from service.database import database_now
from service.housekeeping import forget_sessions
from service.jobs import logs
from service.keys.rules import create_key, revoke_key
from service.sessions.models import WebSession
from service.sessions.ring import CACHE_SECONDS, SessionRing
from tests.waiting import Clock

SPEC = {"dataset": "builtin:digits"}


@pytest.fixture
def settings(settings):
    return settings.model_copy(update={"auth": "keys"})


@pytest.fixture
def make_key(services):
    def make_key(scope="user"):
        return services.database.write(lambda s: create_key(s, name=f"{scope}s", scope=scope))

    return make_key


@pytest.fixture
def browser(client):
    """A new browser: it keeps cookies, and sends the CSRF token once it is logged in."""
    opened = []

    def browser(key=None):
        browser = httpx.Client(base_url=client.base_url, timeout=20, verify=tls_for("http://x"))
        opened.append(browser)
        if key is not None:
            response = browser.post("/v1/session", json={"key": key.secret})
            assert response.status_code == 201, response.text
            browser.headers["Redkiln-CSRF"] = response.json()["csrf_token"]
        return browser

    yield browser
    for one in opened:
        one.close()


def test_a_page_learns_whether_a_login_is_needed(browser):
    state = browser().get("/v1/session").json()
    assert state == {
        "login_required": True, "caller": None, "csrf_token": None, "expires_at": None,
    }  # fmt: skip


def test_a_cookie_replaces_the_key(browser, make_key):
    key = make_key()
    logged_in = browser(key)
    assert logged_in.get("/v1/jobs").status_code == 200
    assert logged_in.post("/v1/jobs", json=SPEC).status_code == 202
    state = logged_in.get("/v1/session").json()
    caller = {"key_id": key.id, "name": "users", "scope": "user", "project": "default"}
    assert state["caller"] == caller
    assert state["csrf_token"] == logged_in.headers["Redkiln-CSRF"]
    assert state["expires_at"] > "2026"
    assert browser().get("/v1/jobs").status_code == 401


def test_the_cookie_is_hidden_from_scripts_and_other_sites(browser, make_key, services):
    response = browser().post("/v1/session", json={"key": make_key().secret})
    cookie = response.headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/", "Max-Age=604800"} <= set(cookie.split("; "))
    assert response.headers["Cache-Control"] == "no-store"
    secret = response.cookies["redkiln_session"]
    (row,) = services.database.read(lambda s: s.exec(WebSession.__table__.select()).all())
    assert secret not in str(row)
    assert secret not in response.text


@pytest.mark.parametrize("token", [None, "", "0" * 64])
def test_a_change_needs_the_csrf_token(browser, make_key, token):
    logged_in = browser(make_key())
    del logged_in.headers["Redkiln-CSRF"]
    headers = {} if token is None else {"Redkiln-CSRF": token}
    response = logged_in.post("/v1/jobs", json=SPEC, headers=headers)
    assert (response.status_code, response.json()["code"]) == (403, "bad_csrf")
    assert logged_in.delete("/v1/session", headers=headers).json()["code"] == "bad_csrf"
    assert logged_in.get("/v1/jobs").status_code == 200


def test_another_site_is_refused_in_spite_of_the_cookie(browser, make_key):
    response = browser(make_key()).get("/v1/jobs", headers={"Origin": "http://attacker.example"})
    assert (response.status_code, response.json()["code"]) == (403, "foreign_origin")


def test_a_session_has_the_scope_of_its_key(browser, make_key):
    assert browser(make_key("admin")).get("/v1/keys").status_code == 200
    response = browser(make_key("user")).get("/v1/keys")
    assert (response.status_code, response.json()["code"]) == (403, "wrong_scope")


@pytest.mark.parametrize("path", ["/v1/workers/hello", "/v1/workers/claim"])
def test_a_cookie_does_not_authenticate_a_worker(browser, make_key, path):
    assert browser(make_key("admin")).post(path, json={}).status_code == 401


def test_a_workers_key_and_an_unknown_key_cannot_log_in(browser, make_key):
    response = browser().post("/v1/session", json={"key": make_key("worker").secret})
    assert (response.status_code, response.json()["code"]) == (403, "wrong_scope")
    response = browser().post("/v1/session", json={"key": "rk_nonsense"})
    assert (response.status_code, response.json()["code"]) == (401, "bad_key")


def test_logging_out_ends_the_session_and_removes_the_cookie(browser, make_key):
    logged_in = browser(make_key())
    secret = logged_in.cookies["redkiln_session"]
    assert logged_in.delete("/v1/session").status_code == 204
    assert not logged_in.cookies
    thief = browser()
    thief.cookies.set("redkiln_session", secret)
    response = thief.get("/v1/jobs")
    assert (response.status_code, response.json()["code"]) == (401, "session_expired")
    assert thief.get("/v1/session").json()["caller"] is None
    assert browser().delete("/v1/session").status_code == 204


def test_sessions_are_listed_and_ended_by_their_owner_or_an_admin(browser, make_key):
    users = make_key()
    one, two, admin = browser(users), browser(users), browser(make_key("admin"))
    own = one.get("/v1/sessions").json()["data"]
    assert [item["is_current"] for item in own] == [False, True]
    assert {item["key_name"] for item in own} == {"users"}
    assert len(admin.get("/v1/sessions").json()["data"]) == 3
    theirs = admin.get("/v1/sessions").json()["data"][0]["id"]
    assert one.delete(f"/v1/sessions/{theirs}").status_code == 404
    assert one.delete(f"/v1/sessions/{own[0]['id']}").status_code == 204
    assert two.get("/v1/jobs").status_code == 401
    assert admin.delete(f"/v1/sessions/{own[1]['id']}").status_code == 204
    assert one.get("/v1/jobs").status_code == 401


def test_logging_out_everywhere_ends_the_sessions_of_the_own_key_only(browser, make_key):
    key, other = make_key(), browser(make_key("admin"))
    here, there = browser(key), browser(key)
    assert here.delete("/v1/sessions").status_code == 204
    assert [one.get("/v1/jobs").status_code for one in (here, there, other)] == [401, 401, 200]
    used = {one["id"]: one["last_used_at"] for one in other.get("/v1/keys").json()["data"]}
    assert used[key.id] is not None


def test_a_revoked_key_ends_its_sessions(browser, make_key, services):
    key = make_key()
    logged_in = browser(key)
    admin = browser(make_key("admin"))
    assert admin.delete(f"/v1/keys/{key.id}").status_code == 204
    assert logged_in.get("/v1/jobs").status_code == 401
    forget_sessions(services)
    rows = services.database.read(lambda s: s.exec(WebSession.__table__.select()).all())
    assert [row.key_id for row in rows] != [key.id]
    assert len(rows) == 1


def test_a_session_expires(browser, make_key, services):
    logged_in = browser(make_key())
    expire_all(services)
    response = logged_in.get("/v1/jobs")
    assert (response.status_code, response.json()["code"]) == (401, "session_expired")
    forget_sessions(services)
    assert services.database.read(lambda s: s.exec(WebSession.__table__.select()).all()) == []


STREAMS = ["overview/events", "jobs/ID/events", "jobs/ID/logs?follow=true"]


@pytest.mark.parametrize(
    ("path", "how"),
    [*((path, "key") for path in STREAMS), (STREAMS[0], "session"), (STREAMS[0], "time")],
)
def test_an_open_stream_ends_when_its_caller_loses_access(
    path, how, browser, make_key, services, monkeypatch
):
    services.settings.heartbeat_seconds = 0.02
    monkeypatch.setattr(logs, "LOOK_SECONDS", 0.02)
    key, admin = make_key(), browser(make_key("admin"))
    watcher = browser() if how == "key" else browser(key)
    if how == "key":
        watcher.headers["Authorization"] = f"Bearer {key.secret}"
    job_id = admin.post("/v1/jobs", json=SPEC).json()["id"]
    accept = {"Accept": "text/event-stream"}
    with watcher.stream("GET", f"/v1/{path.replace('ID', job_id)}", headers=accept) as response:
        assert response.status_code == 200
        if how == "key":
            assert admin.delete(f"/v1/keys/{key.id}").status_code == 204
        elif how == "session":
            assert watcher.delete("/v1/session").status_code == 204
        else:
            expire_all(services)
        for _ in response.iter_raw():
            pass  # the time limit of the test ends a stream that continues
    assert watcher.get("/v1/jobs").status_code == 401


def expire_all(services):
    past = sa.update(WebSession.__table__).values(expires_at=database_now(plus_seconds=-1))
    services.database.write(lambda s: s.execute(past))
    services.sessions.forget()


def test_a_cookie_is_looked_up_once_in_five_seconds(browser, make_key, services):
    secret = browser(make_key()).cookies["redkiln_session"]
    clock = Clock(100.0)
    ring = SessionRing(services.database, clock=clock)
    assert ring.recall(secret) is None
    caller = ring.look_up(secret)
    clock.now += CACHE_SECONDS - 0.1
    assert ring.recall(secret) == caller
    services.database.write(lambda s: revoke_key(s, caller.id))
    clock.now += 0.2
    assert ring.recall(secret) is None


def test_a_service_without_keys_has_no_login(serve, settings):
    url, _ = serve(create_app(settings.model_copy(update={"auth": "auto"})))
    with httpx.Client(base_url=url, verify=tls_for(url)) as client:
        state = client.get("/v1/session").json()
        assert (state["login_required"], state["caller"]["key_id"]) == (False, "local")
        response = client.post("/v1/session", json={"key": "rk_x"})
        assert (response.status_code, response.json()["code"]) == (409, "no_login")
        assert client.delete("/v1/session").status_code == 204
