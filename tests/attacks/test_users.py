"""A user who asks for more than the key allows, or for what takes for ever."""

import hashlib
import io
import tarfile

import httpx
import pytest

from redkiln.tasks.script import compile_pattern
from redkiln.tls import tls_for
from service.app import create_app
from service.keys.rules import create_key


def script(**fields):
    return {"task": "script", "script": {"command": ["true"], **fields}}


@pytest.fixture
def settings(settings):
    return settings.model_copy(update={"scripts": "on"})


@pytest.mark.parametrize(
    "pattern",
    [
        "(" * 1900 + "(?P<x>a)" + ")" * 40,
        r"(?P<x>a)(?P=x)",
        "(?P<x>",
        "(?P<x>a{1000}){1000}",
        "".join(f"(?P<g{number}>a)" for number in range(140)),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused(client, pattern):
    answer = client.post("/v1/jobs", json=script(metrics_pattern=pattern))
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"] == "/script/metrics_pattern"


def test_no_pattern_takes_more_than_linear_time():
    # An engine that goes back and tries again would need years.
    for pattern in (r"(?P<x>(a+)+)$", r"(?P<x>(a|aa)+)$", r"(.*)*(?P<x>=)(.*)*$"):
        assert compile_pattern(pattern).search("a" * 5000 + "!") is None


@pytest.mark.parametrize("arch", [["gfx1100"] * 33, ["g" * 33]])
def test_a_job_names_few_architectures(client, arch):
    answer = client.post(
        "/v1/jobs", json={"dataset": "builtin:digits", "resources": {"arch": arch}}
    )
    assert answer.status_code == 422


def own_network(client, headers):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        text = b"from torch import nn\nclass Net(nn.Module):\n    pass\n"
        member = tarfile.TarInfo("net.py")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    sha256 = hashlib.sha256(content.getvalue()).hexdigest()
    client.put(f"/v1/bundles/{sha256}", content=content.getvalue(), headers=headers)
    model = {"source": "code", "file": "net.py", "class": "Net", "bundle": sha256}
    return {"dataset": "builtin:digits", "model": model}


@pytest.mark.parametrize("own", ["script", "network"])
@pytest.mark.parametrize("action", ["retry", "resume", "finish"])
def test_a_user_without_the_scope_cannot_start_somebody_elses_code_again(
    settings, serve, action, own
):
    app = create_app(settings.model_copy(update={"auth": "keys"}))
    url, _ = serve(app)
    services = app.state.services
    keys = {
        scope: services.database.write(lambda s, scope=scope: create_key(s, name="k", scope=scope))
        for scope in ("user", "scripts")
    }
    with httpx.Client(base_url=url, verify=tls_for(url)) as client:

        def post(scope, path, **options):
            headers = {"Authorization": f"Bearer {keys[scope].secret}"}
            return client.post(f"/v1/jobs{path}", headers=headers, **options)

        headers = {"Authorization": f"Bearer {keys['scripts'].secret}"}
        spec = script() if own == "script" else own_network(client, headers)
        assert post("user", "", json=spec).json()["code"] == "scripts_not_allowed"
        job_id = post("scripts", "", json=spec).json()["id"]
        post("scripts", f"/{job_id}/{'pause' if action == 'resume' else 'cancel'}")
        refused = post("user", f"/{job_id}/{action}")
        assert (refused.status_code, refused.json()["code"]) == (403, "scripts_not_allowed")
        # Neither has trained, so nothing could be exported.
        allowed = 409 if action == "finish" else 200
        assert post("scripts", f"/{job_id}/{action}").status_code == allowed


@pytest.mark.parametrize(
    "more",
    [
        {f"epoch{number}": 1 for number in range(30_000)},
        {"e" * 900_000: 1},
        {"class_weights": {f"c{number}": 1 for number in range(30_000)}},
        {"optimizer": {"name": "s" * 900_000}},
    ],
    ids=["fields", "long field", "classes", "long name"],
)
def test_the_answer_to_a_spec_full_of_faults_is_short(client, more):
    answer = client.post("/v1/jobs", json={"dataset": "builtin:digits", "training": more})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_spec")
    assert 1 <= len(answer.json()["errors"]) <= 100
    assert len(answer.content) < 100_000
