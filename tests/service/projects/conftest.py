"""A service that requires keys, and people who have one."""

import httpx
import pytest

from redkiln.tls import tls_for
from service.app import create_app
from service.keys.rules import create_key


class Person:
    """Somebody with a key of a project."""

    def __init__(self, services, client, *, project="default", scope="user"):
        key = services.database.write(
            lambda s: create_key(s, name=f"{scope} of {project}", scope=scope, project=project)
        )
        self.id, self.name, self.project = key.id, key.name, project
        self.secret, self._client = key.secret, client

    def ask(self, method, path, *, headers=(), **options):
        sent = {"Authorization": f"Bearer {self.secret}", **dict(headers)}
        return self._client.request(method, path, headers=sent, **options)

    def get(self, path):
        return self.ask("GET", path)

    def ids(self, path):
        return [item["id"] for item in self.get(path).json()["data"]]

    def submit(self, **spec):
        return self.ask("POST", "/v1/jobs", json={"dataset": "builtin:digits", **spec})

    def push(self, name="pets", data=b"a,b\n1,2\n"):
        headers = {"Content-Type": "text/csv"}
        return self.ask("POST", f"/v1/datasets?name={name}", content=data, headers=headers)


@pytest.fixture
def limits():
    """Settings of the service that a test changes."""
    return {}


@pytest.fixture
def keyed(settings, serve, limits):
    """A service that requires keys, and a client without one."""
    app = create_app(settings.model_copy(update={"auth": "keys", **limits}))
    url, _ = serve(app)
    with httpx.Client(base_url=url, timeout=20, verify=tls_for(url)) as client:
        yield app.state.services, client


@pytest.fixture
def people(keyed):
    """A user of each of two projects, and an admin."""
    return (
        Person(*keyed, project="cats"),
        Person(*keyed, project="dogs"),
        Person(*keyed, scope="admin"),
    )
