import os
import re
import stat

import httpx
import pytest
import sqlalchemy as sa

from redkiln.tls import tls_for
from service.app import create_app
from service.errors import Unauthorized
from service.keys.first import create_private, ensure_first_keys
from service.keys.models import ApiKey
from service.keys.ring import CACHE_SECONDS, KeyRing
from service.keys.rules import create_key, revoke_key
from service.keys.secret import hash_secret, make_secret, parse_key_id
from service.keys.uses import EXACT_SECONDS
from tests.waiting import Clock

KEY_ID = "key_" + "0123456789abcdefghjkmn"


def test_a_secret_contains_its_keys_id_and_256_random_bits():
    secret = make_secret(KEY_ID)
    assert re.fullmatch(r"rk_0123456789abcdefghjkmn_[0-9A-Za-z]{43}_[0-9a-f]{8}", secret)
    assert parse_key_id(secret) == KEY_ID
    assert make_secret(KEY_ID) != secret


@pytest.mark.parametrize("position", [3, 10, 30, 60, -1])
def test_a_mistyped_secret_is_recognised_by_its_checksum(position):
    secret = make_secret(KEY_ID)
    wrong = "1" if secret[position] != "1" else "2"
    changed = secret[:position] + wrong + secret[position:][1:]
    assert parse_key_id(changed) is None


def test_only_the_hash_is_stored(services):
    created = services.database.write(lambda s: create_key(s, name="ci", scope="user"))
    row = services.database.read(lambda s: s.get(ApiKey, created.id))
    assert row.secret_sha256 == hash_secret(created.secret)
    path = services.settings.sqlite_path
    files = [path, path.with_name(path.name + "-wal")]
    assert not any(created.secret.encode() in file.read_bytes() for file in files if file.exists())


@pytest.fixture
def clock():
    return Clock(100.0)


def test_a_key_is_looked_up_once_in_five_seconds(services, clock):
    ring = KeyRing(services.database, clock=clock)
    created = services.database.write(lambda s: create_key(s, name="ci", scope="user"))
    assert ring.recall(created.secret) is None
    caller = ring.look_up(created.secret)
    assert (caller.id, caller.scope) == (created.id, "user")
    clock.now += CACHE_SECONDS - 0.1
    assert ring.recall(created.secret) == caller
    clock.now += 0.2
    assert ring.recall(created.secret) is None


def test_a_revoked_key_works_no_longer_than_the_cache_in_another_process(services, clock):
    other_process = KeyRing(services.database, clock=clock)
    created = services.database.write(lambda s: create_key(s, name="ci", scope="user"))
    other_process.look_up(created.secret)
    services.database.write(lambda s: revoke_key(s, created.id))
    clock.now += CACHE_SECONDS + 0.1
    assert other_process.recall(created.secret) is None
    with pytest.raises(Unauthorized):
        other_process.look_up(created.secret)


def test_a_secret_of_the_right_form_for_a_known_id_is_not_enough(services):
    created = services.database.write(lambda s: create_key(s, name="ci", scope="user"))
    with pytest.raises(Unauthorized):
        services.keys.look_up(make_secret(created.id))


def read(settings, name):
    return (settings.keys_dir / f"{name}.key").read_text().strip()


def test_the_first_keys_are_readable_only_by_their_owner(services, settings):
    for name in ("admin.key", "worker.key", "secret"):
        assert stat.S_IMODE((settings.keys_dir / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(settings.keys_dir.stat().st_mode) == 0o700
    assert services.keys.look_up(read(settings, "admin")).scope == "admin"
    assert services.keys.look_up(read(settings, "worker")).scope == "worker"


def test_a_second_start_keeps_the_keys(services, settings):
    before = read(settings, "admin")
    ensure_first_keys(services.database, settings.keys_dir)
    assert read(settings, "admin") == before
    count = sa.select(sa.func.count()).select_from(ApiKey)
    assert services.database.read(lambda s: s.execute(count).scalar_one()) == 2


def test_a_removed_file_gets_a_new_key(services, settings):
    before = read(settings, "admin")
    (settings.keys_dir / "admin.key").unlink()
    ensure_first_keys(services.database, settings.keys_dir)
    assert read(settings, "admin") != before
    assert services.keys.look_up(read(settings, "admin")).scope == "admin"


def test_a_key_whose_row_was_lost_is_registered_again(services, settings):
    key_id = parse_key_id(read(settings, "worker"))
    services.database.write(lambda s: s.delete(s.get(ApiKey, key_id)))
    ensure_first_keys(services.database, settings.keys_dir)
    assert services.keys.look_up(read(settings, "worker")).id == key_id


def test_a_revoked_first_key_stays_revoked(services, settings):
    secret = read(settings, "admin")
    services.database.write(lambda s: revoke_key(s, parse_key_id(secret)))
    ensure_first_keys(services.database, settings.keys_dir)
    with pytest.raises(Unauthorized):
        services.keys.look_up(secret)


def test_a_key_file_without_a_key_is_reported(services, settings):
    (settings.keys_dir / "admin.key").write_text("hello")
    with pytest.raises(ValueError, match=r"admin\.key does not contain a key"):
        ensure_first_keys(services.database, settings.keys_dir)


def test_a_private_file_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "x.key"
    assert create_private(path, "one") is True
    assert create_private(path, "two") is False
    assert path.read_text() == "one"

    def fail(_):
        raise OSError("disk")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk"):
        create_private(tmp_path / "y.key", "three")
    assert [p.name for p in tmp_path.iterdir()] == ["x.key"]


def test_a_key_is_created_shown_once_listed_and_revoked(client):
    answer = client.post("/v1/keys", json={"name": "ci", "scope": "user"})
    assert answer.status_code == 201
    created = answer.json()
    assert answer.headers["location"] == f"/v1/keys/{created['id']}"
    assert answer.headers["cache-control"] == "no-store"
    assert parse_key_id(created["secret"]) == created["id"]
    listed = client.get("/v1/keys", params={"limit": 1}).json()
    assert listed["has_more"]
    assert listed["data"][0]["id"] == created["id"]
    assert "secret" not in str(listed)
    assert client.delete(f"/v1/keys/{created['id']}").status_code == 204
    assert client.delete(f"/v1/keys/{created['id']}").status_code == 204
    assert client.get("/v1/keys").json()["data"][0]["revoked_at"] is not None
    assert client.delete("/v1/keys/key_nope").status_code == 404


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/name"),
        ({"name": ""}, "/name"),
        ({"name": "x", "scope": "root"}, "/scope"),
        ({"name": "x", "extra": 1}, "/extra"),
    ],
)
def test_problems_in_a_new_key_have_a_pointer(client, body, pointer):
    answer = client.post("/v1/keys", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_a_revoked_key_stops_at_once(serve, settings):
    app = create_app(settings.model_copy(update={"auth": "keys"}))
    url, _ = serve(app)
    admin = {"Authorization": f"Bearer {read(settings, 'admin')}"}
    with httpx.Client(base_url=url, verify=tls_for(url)) as client:
        created = client.post("/v1/keys", json={"name": "x"}, headers=admin).json()
        shown = {"Authorization": f"Bearer {created['secret']}"}
        assert client.get("/v1/jobs", headers=shown).status_code == 200
        client.delete(f"/v1/keys/{created['id']}", headers=admin)
        assert client.get("/v1/jobs", headers=shown).status_code == 401


def test_an_unknown_field_of_a_new_key_suggests_the_nearest_one(client):
    problem = client.post("/v1/keys", json={"name": "ci", "scop": "admin"}).json()
    assert problem["errors"] == [
        {
            "pointer": "/scop",
            "code": "unknown_field",
            "message": "unknown field 'scop'; did you mean 'scope'?",
        }
    ]


def test_a_use_of_a_key_is_noted_once_a_minute(services, clock):
    ring = KeyRing(services.database, clock=clock)
    created = services.database.write(lambda s: create_key(s, name="ci", scope="user"))

    def last_use():
        return services.database.read(lambda s: s.get(ApiKey, created.id).last_used_at)

    assert last_use() is None
    ring.look_up(created.secret)
    first = last_use()
    assert first is not None
    clock.now += EXACT_SECONDS - 1
    ring.look_up(created.secret)
    assert last_use() == first
    clock.now += 1
    ring.look_up(created.secret)
    assert last_use() > first


def test_a_rotated_key_is_replaced_by_one_of_the_same_name_and_scope(client):
    old = client.post("/v1/keys", json={"name": "anna", "scope": "worker"}).json()
    answer = client.post(f"/v1/keys/{old['id']}/rotate")
    assert answer.status_code == 201
    new = answer.json()
    assert (new["name"], new["scope"]) == ("anna", "worker")
    assert answer.headers["Location"] == f"/v1/keys/{new['id']}"
    for key, code in ((old["secret"], "bad_key"), (new["secret"], "invalid_request")):
        headers = {"Authorization": f"Bearer {key}"}
        assert client.post("/v1/workers/hello", json={}, headers=headers).json()["code"] == code
    again = client.post(f"/v1/keys/{old['id']}/rotate")
    assert (again.status_code, again.json()["code"]) == (409, "key_revoked")
    assert client.post("/v1/keys/key_none/rotate").status_code == 404
