"""A user sends many requests that take long, to keep the service from answering others."""

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import httpx
import pytest

from redkiln.tls import tls_for
from tests.waiting import wait_for

NUM_REQUESTS = 60
"""More than the server has threads."""


@pytest.fixture
def over(monkeypatch):
    """Everything that starts a limited process waits until this event is set."""
    over = threading.Event()

    def draw(*arguments):
        over.wait(120)
        kept = arguments[-1]
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes(b"picture")

    def run(*_, **__):
        over.wait(120)
        return SimpleNamespace(returncode=1, stdout=b"")

    monkeypatch.setattr("service.datasets.tiles._draw", draw)
    monkeypatch.setattr("service.bundles.checking.subprocess.run", run)
    return over


@pytest.mark.parametrize("what", ["pictures", "ONNX files"])
def test_many_slow_requests_do_not_stop_the_others(client, archive, settled, over, what):
    headers = {"Content-Type": "application/zip"}
    created = client.post("/v1/datasets?name=pets", content=archive, headers=headers)
    dataset_id = settled(client, created.json()["id"])["id"]
    url = str(client.base_url)

    def ask(number):
        with httpx.Client(base_url=url, verify=tls_for(url), timeout=120) as own:
            if what == "pictures":
                return own.get(f"/v1/datasets/{dataset_id}/tiles")
            content = b"onnx %d" % number
            return own.put(f"/v1/models/{hashlib.sha256(content).hexdigest()}", content=content)

    with ThreadPoolExecutor(NUM_REQUESTS) as pool:
        try:
            asked = [pool.submit(ask, number) for number in range(NUM_REQUESTS)]
            refused = wait_for(lambda: [one for one in asked if one.done()])[0].result()
            assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
            assert refused.headers["Retry-After"] == "10"
            assert client.get("/v1/jobs", timeout=60).status_code == 200
        finally:
            over.set()
