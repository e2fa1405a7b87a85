from datetime import timedelta

import httpx
import pytest
import sqlalchemy as sa

from redkiln.tls import tls_for
from service.app import create_app
from service.audit.models import AuditEntry
from service.audit.record import Record, current
from service.audit.rules import forget_old_entries
from service.database import database_now
from service.http.access import LOCAL
from service.keys.rules import create_key


def as_admin(settings, serve):
    """Serve with keys; return the services, the address and an admin's secret."""
    app = create_app(settings.model_copy(update={"auth": "keys"}))
    url, _ = serve(app)
    secret = (settings.keys_dir / "admin.key").read_text().strip()
    return app.state.services, url, secret


def test_the_log_says_who_changed_what_and_what_was_refused(settings, serve):
    services, url, secret = as_admin(settings, serve)
    anna = services.database.write(lambda s: create_key(s, name="anna", scope="user"))
    headers = {"Authorization": f"Bearer {secret}"}
    with httpx.Client(base_url=url, verify=tls_for(url), headers=headers) as client:
        own = {"Authorization": f"Bearer {anna.secret}"}
        spec = {"dataset": "builtin:digits", "metadata": {"note": "a-private-word"}}
        job_id = client.post("/v1/jobs", json=spec, headers=own).json()["id"]
        client.post(f"/v1/jobs/{job_id}/cancel", headers=own)
        client.get(f"/v1/jobs/{job_id}", headers=own)  # reading is not logged
        client.post("/v1/keys", json={"name": "eve"}, headers=own)
        client.post("/v1/jobs", json=spec, headers={"Authorization": "Bearer wrong"})
        client.delete("/v1/jobs?status=cancelled&metadata.note=a-private-word")
        made = client.post("/v1/keys", json={"name": "ben"}).json()

        found = client.get("/v1/audit").json()
        assert [
            (one["key_name"], one["action"], one["object"], one["outcome"]) for one in found["data"]
        ] == [
            ("first admin key", "POST /v1/keys", made["id"], "done"),
            ("first admin key", "DELETE /v1/jobs", job_id, "done"),
            ("anna", "POST /v1/keys", "", "forbidden"),
            ("anna", "POST /v1/jobs/{job_id}/cancel", job_id, "done"),
            ("anna", "POST /v1/jobs", job_id, "done"),
        ]
        assert {one["address"] for one in found["data"]} == {"127.0.0.1"}
        text = str(found)
        assert not any(word in text for word in (made["secret"], anna.secret, "a-private-word"))

        newest = client.get("/v1/audit?limit=1").json()
        assert newest["has_more"]
        rest = client.get(f"/v1/audit?after={newest['last_id']}").json()["data"]
        assert len(rest) == 4
        of_anna = {
            query: len(client.get(f"/v1/audit?{query}").json()["data"])
            for query in ("key=anna&outcome=done", f"object={job_id}", "action=delete", "project=x")
        }
        assert list(of_anna.values()) == [2, 3, 1, 0]
        assert client.get("/v1/audit?since=2999-01-01T00:00:00Z").json()["data"] == []
        assert client.get("/v1/audit", headers=own).status_code == 403


def test_an_entry_is_written_with_the_change_or_not_at_all(client, services):
    token = current.set(Record({"path": "/v1/keys"}, LOCAL))  # without the method, no entry
    try:
        with pytest.raises(KeyError):
            services.database.write(lambda s: create_key(s, name="ci", scope="user"))
        names = [key["name"] for key in client.get("/v1/keys").json()["data"]]
        assert "ci" not in names
        current.set(Record({"path": "/v1/keys", "method": "POST"}, LOCAL))
        services.database.write(lambda s: create_key(s, name="ci", scope="user"))
    finally:
        current.reset(token)
    (entry,) = client.get("/v1/audit").json()["data"]
    assert (entry["key_id"], entry["action"], entry["outcome"]) == (
        "local",
        "POST /v1/keys",
        "done",
    )


def test_old_entries_are_forgotten(client, services, submit):
    submit()
    submit()
    newest = client.get("/v1/audit").json()["data"][0]["id"]
    old = sa.update(AuditEntry).where(AuditEntry.id != newest)
    past = database_now(plus_seconds=-timedelta(days=3).total_seconds())
    services.database.write(lambda s: s.execute(old.values(at=past)))
    services.database.write(lambda s: forget_old_entries(s, days=2))
    assert [one["id"] for one in client.get("/v1/audit").json()["data"]] == [newest]
