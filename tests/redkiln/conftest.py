"""A small real service over TCP that can be made to fail, and a client of it."""

import threading
import time

import pytest
import uvicorn

from redkiln.client import Client
from redkiln.client.connection import RetryPolicy
from tests.redkiln.fake_routes import Recorder, build_app
from tests.redkiln.fake_service import FakeService


@pytest.fixture(scope="session")
def fake_server():
    """One server for the whole run; its state is replaced by each test."""
    holder = Recorder(None, None)

    async def app(scope, receive, send):
        await holder(scope, receive, send)

    config = uvicorn.Config(app, port=0, log_config=None, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    holder.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    yield holder
    server.should_exit = True
    thread.join(60)


@pytest.fixture
def fake(fake_server, monkeypatch, tmp_path):
    """A fake service with one job, alone in an empty folder."""
    service = FakeService(url=fake_server.url)
    fake_server.app, fake_server.fake = build_app(service), service
    for name in ("REDKILN_KEY", "REDKILN_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REDKILN_URL", service.url)
    monkeypatch.chdir(tmp_path)
    service.events = [
        ("submitted", {"name": "flowers"}),
        ("phase", {"phase": "preparing"}),
        ("message", {"text": "rehearsed the export in 1.2 s"}),
        ("phase", {"phase": "training"}),
        ("result", {"metrics": {"test/accuracy": 0.978}, "verified": True}),
        ("succeeded", {}),
    ]
    return service


@pytest.fixture
def client(fake):
    """A client of the fake service that does not wait long between two tries."""
    with Client(fake.url, policy=RetryPolicy(base_seconds=0.001)) as made:
        yield made


@pytest.fixture
def image_folder(tmp_path):
    """A folder of two classes, with what operating systems leave behind."""
    root = tmp_path / "flowers"
    for name, amount in (("daisy", 3), ("rose", 2)):
        (root / name).mkdir(parents=True)
        for index in range(amount):
            (root / name / f"{index}.png").write_bytes(name.encode() * (index + 1) * 100)
    (root / ".DS_Store").write_bytes(b"junk")
    return root
