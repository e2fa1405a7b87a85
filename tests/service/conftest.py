"""A whole service in a temporary folder, and a worker that speaks its protocol."""

import asyncio
import base64
import hashlib
import itertools
import shutil
import threading
import time
from dataclasses import dataclass, field

import httpx
import pytest
import sqlalchemy as sa
import uvicorn

from redkiln.tls import tls_for
from redkiln.version import __version__
from service.app import create_app
from service.attempts.models import ATTEMPT
from service.database import database_now
from service.settings import Settings
from tests.forked import WarmProcess
from tests.postgres import TEMPLATE, is_wanted, running

MANIFEST = {"kind": "manifest", "name": "manifest.json", "media_type": "application/json"}


@dataclass
class Attempt:
    """An attempt as its worker holds it."""

    client: httpx.Client
    claimed: dict
    seq: int = 0

    @property
    def id(self):
        return self.claimed["attempt_id"]

    @property
    def job_id(self):
        return self.claimed["job_id"]

    @property
    def headers(self):
        return {"Authorization": f"Bearer {self.claimed['token']}"}

    def post(self, what, **body):
        return self.client.post(f"/v1/attempts/{self.id}/{what}", json=body, headers=self.headers)

    def report(self, *events, log=None, **fields):
        """Send events, each a pair of kind and data."""
        body = {
            "first_seq": self.seq + 1,
            "events": [
                {"at": "2026-01-01T00:00:00Z", "kind": kind, "data": data} for kind, data in events
            ],
            **fields,
        }
        if log is not None:
            offset, data = log
            body["log"] = {"offset": offset, "data": base64.b64encode(data).decode()}
        response = self.post("report", **body)
        if response.status_code == 200:
            self.seq = response.json()["acked_seq"]
        return response

    def upload(self, data):
        sha256 = hashlib.sha256(data).hexdigest()
        response = self.client.put(
            f"/v1/attempts/{self.id}/blobs/{sha256}", content=data, headers=self.headers
        )
        assert response.status_code == 201, response.text
        return sha256

    def checkpoint(self, step, *, data=None, is_best=False):
        data = data or f"{self.job_id} at {step}".encode()
        return self.post(
            "checkpoints",
            step=step,
            sha256=self.upload(data),
            size_bytes=len(data),
            is_best=is_best,
            manifest={"step": step},
        )

    def finish(self, outcome, **fields):
        return self.post("finish", outcome=outcome, **{"last_seq": self.seq, **fields})

    def artifact(self, kind, name, data):
        """Upload a file; the result is its entry in the list of a finished attempt."""
        return {
            "kind": kind,
            "name": name,
            "media_type": "application/octet-stream",
            "sha256": self.upload(data),
            "size_bytes": len(data),
        }

    def succeed(self, data=b"{}"):
        artifact = {**MANIFEST, "sha256": self.upload(data), "size_bytes": len(data)}
        return self.finish("succeeded", artifacts=[artifact])

    def fail(self, code="crashed", *, retryable=True):
        failure = {"code": code, "message": "it broke", "retryable": retryable}
        return self.finish("failed", failure=failure)


@dataclass
class Worker:
    """A worker with a CPU slot, unless it has GPUs."""

    client: httpx.Client
    key: str
    id: str = "wrk_00000001"
    boot_id: str = "boot-1"
    gpus: list = field(default_factory=list)
    claims: itertools.count = field(default_factory=itertools.count)

    @property
    def headers(self):
        return {"Authorization": f"Bearer {self.key}"}

    def hello(self, **fields):
        body = {
            "worker_id": self.id,
            "boot_id": self.boot_id,
            "protocol": 1,
            "version": __version__,
            "hostname": "bench",
            "gpus": self.gpus,
            "slots": 1,
            **fields,
        }
        return self.client.post("/v1/workers/hello", json=body, headers=self.headers)

    def ask(self, **fields):
        body = {
            "claim_id": f"{self.id}-{self.boot_id}-{next(self.claims)}",
            "worker_id": self.id,
            "boot_id": self.boot_id,
            "devices": ["gpu"] if self.gpus else ["cpu"],
            "arches": [gpu["arch"] for gpu in self.gpus if gpu.get("arch")],
            **fields,
        }
        return self.client.post("/v1/workers/claim", json=body, headers=self.headers)

    def claim(self, **fields):
        response = self.ask(**fields)
        assert response.status_code == 200, response.text
        return Attempt(self.client, response.json())


CHILDREN = (
    "service.datasets.inspect",
    "service.datasets.inspect.rows",
    "service.datasets.inspect.tiles",
    "service.datasets.inspect.held_out",
    "service.predictions",
)
LATER = [
    f"service.datasets.inspect.{name}.inspection" for name in ("tables", "masks", "boxes", "arrays")
]


@pytest.fixture(scope="session")
def warm_process():
    """A process that has imported what the limited processes import."""
    process = WarmProcess(CHILDREN, more=LATER)
    yield process
    process.close()


@pytest.fixture
def fork_children(warm_process, monkeypatch):
    """Forks what reads users' data. Tests of the validator and attacks start it cold."""
    for name in ("service.datasets.validator", "service.datasets.child"):
        monkeypatch.setattr(f"{name}.subprocess", warm_process.subprocess)


@pytest.fixture(scope="session")
def postgres():
    """A server of PostgreSQL if the tests are to use one (`tests.postgres.SWITCH`), else None."""
    if not is_wanted():
        yield None
        return
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def first_state(tmp_path_factory, postgres):
    """The state folder of a service that was started and stopped once: its schema is the newest."""
    state_dir = tmp_path_factory.mktemp("service") / "state"
    url = None if postgres is None else postgres.create(TEMPLATE)
    app = create_app(
        Settings(state_dir=state_dir, min_free_bytes=0, reap_seconds=3600, database_url=url)
    )

    async def start_and_stop():
        async with app.router.lifespan_context(app):
            pass

    asyncio.run(start_and_stop())
    return state_dir


@pytest.fixture
def state_dir(tmp_path, first_state, postgres, monkeypatch):
    """A state folder of this test's own; copying one is ten times as fast as migrating one."""
    state_dir = shutil.copytree(first_state, tmp_path / "state")
    if postgres is None:
        yield state_dir
        return
    url = postgres.copy()
    monkeypatch.setenv("REDKILN_DATABASE_URL", url)
    yield state_dir
    postgres.drop(url)


@pytest.fixture
def settings(state_dir):
    return Settings(state_dir=state_dir, min_free_bytes=0, reap_seconds=3600)


@pytest.fixture
def app(settings, fork_children):
    return create_app(settings)


class PromptServer(uvicorn.Server):
    """A server that stops at once; uvicorn's asks every 0.1 s, and then waits for 0.1 s more."""

    def stop(self):
        self.should_exit = True
        self._loop.call_soon_threadsafe(self._stopping.set)

    async def startup(self, sockets=None):
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        await super().startup(sockets)

    async def main_loop(self):
        await self.on_tick(0)  # sets the date of all answers
        await self._stopping.wait()

    async def shutdown(self, sockets=None):
        for server in self.servers:
            server.close()
        while self.server_state.connections or self.server_state.tasks:
            for connection in list(self.server_state.connections):
                connection.shutdown()
            await asyncio.sleep(0.005)
        await self.lifespan.shutdown()


@pytest.fixture
def serve():
    """Serves an application over a real socket, so that clients can leave streams half-way."""
    running = []

    def serve(app):
        server = PromptServer(uvicorn.Config(app, port=0, log_config=None))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive(), "the service did not start"
            time.sleep(0.005)

        def stop():
            app.state.changes.close()
            server.stop()
            thread.join(timeout=60)
            assert not thread.is_alive()

        running.append(stop)
        port = server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}", stop

    yield serve
    for stop in running:
        stop()


@pytest.fixture
def client(app, serve):
    """A client of the service on this machine, with the service's threads running."""
    url, _ = serve(app)
    with httpx.Client(base_url=url, timeout=60, verify=tls_for(url)) as client:
        yield client


@pytest.fixture
def services(app, client):
    return app.state.services


@pytest.fixture
def worker_key(client, settings):
    return (settings.keys_dir / "worker.key").read_text().strip()


@pytest.fixture
def worker(client, worker_key):
    worker = Worker(client, worker_key)
    assert worker.hello().status_code == 200
    return worker


@pytest.fixture
def other_worker(client, worker_key):
    worker = Worker(client, worker_key, id="wrk_00000002")
    assert worker.hello().status_code == 200
    return worker


@pytest.fixture
def submit(client):
    def submit(**spec):
        response = client.post("/v1/jobs", json={"dataset": "builtin:digits", **spec})
        assert response.status_code == 202, response.text
        return response.json()

    return submit


@pytest.fixture
def job(client):
    def job(job_id):
        response = client.get(f"/v1/jobs/{job_id}")
        assert response.status_code == 200, response.text
        return response.json()

    return job


@pytest.fixture
def expire(services):
    """Set an attempt's lease to have ended a second ago."""

    def expire(attempt):
        past = database_now(plus_seconds=-1)
        statement = sa.update(ATTEMPT).where(ATTEMPT.c.id == attempt.id)
        services.database.write(lambda s: s.execute(statement.values(lease_until_at=past)))

    return expire


@pytest.fixture
def kinds(client):
    """Return the kinds of a job's events; their numbers must have no gap."""

    def kinds(job_id):
        events = client.get(f"/v1/jobs/{job_id}/events?limit=1000").json()["data"]
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        return [event["kind"] for event in events]

    return kinds
