import httpx
import pytest
from starlette.datastructures import Headers

from redkiln.tls import tls_for
from service.app import create_app
from service.http.access import find_fault, has_body, is_accepted_media, is_own_host, is_same_origin
from service.keys.rules import create_key
from service.settings import Settings

OPEN = {"/healthz", "/readyz", "/v1/session"}
"""What anybody may read, in addition to the documentation."""
DOCS = ["/docs", "/redoc", "/openapi.json"]
VALUES = {
    "job_id": "job_" + "0" * 22,
    "attempt_id": "att_" + "0" * 22,
    "artifact_id": "art_" + "0" * 22,
    "dataset_id": "ds_" + "0" * 22,
    "key_id": "key_" + "0" * 22,
    "worker_id": "wrk_00000001",
    "session_id": "ses_" + "0" * 22,
    "key": "0000:03:00.0",
    "sha256": "0" * 64,
    "name": "moods",
    "version": "1",
    "alias": "production",
    "upload_id": "upl_" + "0" * 22,
    "number": "1",
    "task": "image-classification",
}
METHODS = ("get", "head", "post", "put", "patch", "delete")


def routes():
    """Every method and path in the service's schema."""
    paths = create_app(Settings()).openapi()["paths"]
    for path, operations in sorted(paths.items()):
        methods = [method for method in METHODS if method in operations]
        for method in methods + (["head"] if "get" in methods and "head" not in methods else []):
            yield method.upper(), path


ROUTES = list(routes())


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:8321", True),
        ("127.8.9.1", True),
        ("localhost:1", True),
        ("LocalHost", True),
        ("[::1]:8321", True),
        ("gpu-box:8321", True),
        ("attacker.example", False),
        ("localhost.attacker.example:8321", False),
        ("127.0.0.1.attacker.example", False),
        ("192.168.0.7:8321", False),
        ("", False),
        ("[::1", True),
        ("[attacker.example]", False),
    ],
)
def test_only_this_machines_own_names_are_hosts(host, expected):
    assert is_own_host(host, {"gpu-box"}) is expected


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://localhost:8321", True),
        ("HTTP://LOCALHOST:8321", True),
        ("https://localhost:8321", True),
        ("http://localhost:3000", False),
        ("http://127.0.0.1:8321", False),
        ("http://attacker.example", False),
        ("http://localhost:8321.attacker.example", False),
        ("null", False),
        ("", False),
    ],
)
def test_only_the_site_itself_is_the_same_origin(origin, expected):
    assert is_same_origin(origin, "localhost:8321") is expected


@pytest.mark.parametrize(
    ("method", "media_type", "expected"),
    [
        ("POST", "application/json", True),
        ("POST", "application/json; charset=utf-8", True),
        ("POST", "APPLICATION/ZIP", True),
        ("POST", "application/octet-stream", True),
        ("POST", "text/csv; charset=utf-8", True),
        ("PUT", "", True),
        ("POST", "", False),
        ("POST", "text/plain", False),
        ("POST", "text/plain;application/json", False),
        ("POST", "multipart/form-data; boundary=x", False),
        ("PUT", "multipart/form-data; boundary=x", False),
        ("POST", "application/x-www-form-urlencoded", False),
        ("POST", "application/X-WWW-form-urlencoded; charset=utf-8", False),
        ("DELETE", "text/plain", False),
    ],
)
def test_bodies_that_browsers_send_without_a_preflight_are_refused(method, media_type, expected):
    assert is_accepted_media(method, media_type) is expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, False),
        ({"content-length": "0"}, False),
        ({"content-length": "10"}, True),
        ({"transfer-encoding": "chunked"}, True),
    ],
)
def test_a_body_is_announced_by_its_length_or_encoding(headers, expected):
    assert has_body(Headers(headers)) is expected


@pytest.mark.parametrize(
    ("settings", "headers", "code"),
    [
        ({}, {"host": "localhost"}, None),
        ({}, {"host": "attacker.example"}, "foreign_host"),
        ({}, {"host": "localhost", "origin": "http://attacker.example"}, "foreign_origin"),
        ({}, {"host": "localhost", "origin": "http://localhost"}, None),
        ({"auth": "keys"}, {"host": "gpu.example", "origin": "http://gpu.example"}, None),
        ({"bind": "0.0.0.0:8321"}, {"host": "gpu.example"}, None),
        (
            {"auth": "keys"},
            {"host": "gpu", "content-length": "1", "content-type": "text/plain"},
            "unsupported_media_type",
        ),
    ],
)
def test_hosts_and_origins_are_checked_if_no_key_is_required(settings, headers, code):
    fault = find_fault("POST", Headers(headers), Settings(**settings))
    assert (fault.code if fault else None) == code


def test_by_default_this_machine_needs_no_key(client):
    assert client.get("/v1/jobs").status_code == 200
    assert client.get("/v1/keys").status_code == 200


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "attacker.example"}, "foreign_host"),
        ({"Origin": "http://attacker.example"}, "foreign_origin"),
        ({"Origin": "null"}, "foreign_origin"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/jobs", "/healthz", "/docs", "/nowhere"])
def test_foreign_requests_are_403_problems_on_every_path(client, path, headers, code):
    answer = client.get(path, headers=headers)
    assert answer.status_code == 403
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == code
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


class TestWithKeys:
    @pytest.fixture
    def settings(self, settings):
        return settings.model_copy(update={"auth": "keys"})

    @pytest.fixture
    def keys(self, services):
        """One secret for each scope."""
        return {
            scope: services.database.write(
                lambda session, scope=scope: create_key(session, name=scope, scope=scope)
            ).secret
            for scope in ("user", "admin", "worker")
        }

    def ask(self, client, method, path, key=None):
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return client.request(method, path.format(**VALUES), headers=headers)

    def test_every_route_but_health_and_docs_is_401_without_a_key(self, client):
        statuses = {}
        for method, path in ROUTES:
            if path not in OPEN:
                answer = self.ask(client, method, path)
                statuses[method, path] = answer.status_code
                if answer.status_code == 401:
                    assert answer.headers["www-authenticate"] == "Bearer"
        assert len(statuses) > 25
        # A route without HEAD says so before anybody is asked for a key.
        assert {
            (route, status)
            for route, status in statuses.items()
            if status != 401 and not (route[0] == "HEAD" and status == 405)
        } == set()

    def test_health_and_docs_are_open(self, client):
        for path in [*OPEN, *DOCS]:
            assert client.get(path).status_code in (200, 503)

    @pytest.mark.parametrize(
        "shown",
        ["Bearer", "Bearer nonsense", f"Bearer rk_{'0' * 22}_{'a' * 43}_00000000", "Bearer é"],
    )
    def test_a_wrong_key_is_401(self, client, shown):
        answer = client.get("/v1/jobs", headers={"Authorization": shown.encode()})
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"

    @pytest.mark.parametrize("scheme", ["Basic", "bearer", "BEARER", "Token"])
    def test_the_scheme_is_bearer_in_any_case(self, client, keys, scheme):
        headers = {"Authorization": f"{scheme} {keys['user']}"}
        expected = 200 if scheme.lower() == "bearer" else 401
        assert client.get("/v1/jobs", headers=headers).status_code == expected

    @pytest.mark.parametrize(
        ("method", "path", "allowed"),
        [
            ("GET", "/v1/jobs", {"user", "admin"}),
            ("GET", "/v1/datasets", {"user", "admin"}),
            ("GET", "/v1/workers", {"user", "admin"}),
            ("GET", "/v1/keys", {"admin"}),
            ("DELETE", "/v1/keys/key_nope", {"admin"}),
            ("POST", "/v1/workers/claim", {"worker"}),
            ("POST", "/v1/workers/hello", {"worker"}),
        ],
    )
    def test_each_scope_may_use_only_its_own_endpoints(self, client, keys, method, path, allowed):
        for scope, key in keys.items():
            answer = self.ask(client, method, path, key)
            assert (answer.status_code not in (401, 403)) is (scope in allowed), scope
            if scope not in allowed:
                assert (answer.status_code, answer.json()["code"]) == (403, "wrong_scope")

    def test_no_key_is_accepted_for_an_attempt(self, client, keys):
        of_attempts = [(m, p) for m, p in ROUTES if p.startswith("/v1/attempts/")]
        assert len(of_attempts) >= 8
        for method, path in of_attempts:
            for key in keys.values():
                status = self.ask(client, method, path, key).status_code
                assert status == 401 or (method == "HEAD" and status == 405), (method, path)

    def test_the_admin_key_of_the_first_start_works(self, client, settings):
        key = (settings.keys_dir / "admin.key").read_text().strip()
        assert self.ask(client, "GET", "/v1/keys", key).status_code == 200


def test_workers_and_attempts_need_tokens_even_on_a_loopback_address(client):
    for method, path in ROUTES:
        if path.startswith("/v1/attempts/") or path in ("/v1/workers/hello", "/v1/workers/claim"):
            status = client.request(method, path.format(**VALUES)).status_code
            assert status == 401 or (method == "HEAD" and status == 405), (method, path)


def test_the_schema_says_where_a_key_is_needed():
    schema = create_app(Settings()).openapi()
    assert schema["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    assert schema["paths"]["/v1/jobs"]["get"]["security"] == [{"key": []}]
    assert "security" not in schema["paths"]["/healthz"]["get"]


def test_a_client_of_the_published_name_passes(serve, settings):
    changed = settings.model_copy(update={"host_names": ["gpu-box"]})
    url, _ = serve(create_app(changed))
    with httpx.Client(
        base_url=url, verify=tls_for(url), headers={"Host": "gpu-box:8321"}
    ) as client:
        assert client.get("/healthz").status_code == 200
