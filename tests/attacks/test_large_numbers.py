"""Numbers that a column of the database cannot hold: PostgreSQL's usual integers have 32 bits."""

import pytest

from tests.attacks.test_generated_sequences import make_things

LARGE = [2**31, 2**63 - 1, 2**70]
ENDLESS = {"/v1/overview/events"}
"""A stream whose numbers are not in the database."""


@pytest.fixture
def settings(key_settings):
    return key_settings


@pytest.fixture
def admin(role_keys):
    return {"Authorization": f"Bearer {role_keys['admin']}"}


@pytest.fixture
def known(client, admin, role_keys):
    """Values of the parameters of paths, and the headers that requests of an attempt need."""
    things = make_things(client, admin, role_keys["worker"])
    (_, headers), *_ = things["attempt_id"].items()
    values = {name: next(iter(found)) for name, found in things.items()}
    return {**values, "name": "pets", "sha256": "0" * 64, "number": 0, "version": 1}, headers


def has_integer(schema):
    parts = [schema, *schema.get("anyOf", ())]
    return any(part.get("type") == "integer" for part in parts)


def test_no_parameter_breaks_the_service(client, admin, known):
    values, of_attempt = known
    document = client.get("/openapi.json").json()
    num_sent, broken = 0, []
    for path, operations in document["paths"].items():
        if path in ENDLESS:
            continue
        for method, operation in operations.items():
            headers = of_attempt if path.startswith("/v1/attempts/") else admin
            for parameter in operation.get("parameters", ()):
                if not has_integer(parameter["schema"]):
                    continue
                for number in LARGE:
                    given = {**values}
                    options = {"headers": dict(headers)}
                    if parameter["in"] == "path":
                        given[parameter["name"]] = number
                    elif parameter["in"] == "header":
                        options["headers"][parameter["name"]] = str(number)
                    else:
                        options["params"] = {parameter["name"]: number}
                    answer = client.request(method, fill(path, given), timeout=30, **options)
                    num_sent += 1
                    if answer.status_code >= 500:
                        broken.append((method, path, parameter["name"], number))
    assert num_sent > 50
    assert not broken


def fill(path, values):
    for name, value in values.items():
        path = path.replace("{" + name + "}", str(value))
    return path


@pytest.mark.parametrize("number", LARGE)
def test_no_body_breaks_the_service(client, admin, known, number):
    values, _ = known
    job = f"/v1/jobs/{values['job_id']}"
    client.post(f"{job}/cancel", headers=admin)
    requests = [
        ("POST", f"{job}/retry", {"from": number}),
        ("PATCH", job, {"priority": number}),
        ("PUT", "/v1/models/pets/aliases/best", {"version": number}),
        ("POST", "/v1/uploads", {"name": "a", "sha256": "0" * 64, "size_bytes": number}),
        ("POST", "/v1/uploads", {"name": "a", "sha256": "0" * 64, "size_bytes": 1, "seed": number}),
        ("POST", "/v1/datasets", {"name": "a", "path": "/a", "seed": number}),
    ]
    for method, path, body in requests:
        answer = client.request(method, path, json=body, headers=admin)
        assert answer.status_code < 500, (path, body, answer.text)
