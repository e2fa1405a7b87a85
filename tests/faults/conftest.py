"""A stack of real processes whose network, disks and clocks fail on demand."""

import shutil
from contextlib import contextmanager

import httpx
import pytest

from native.stack import Stack
from tests.faults.disks import fill, small_disk
from tests.faults.library import Faults, compile_library
from tests.faults.proxy import Proxy
from tests.integration.conftest import FAKES, SHORT_TIMES, Site

LEASE_SECONDS = 15
LEAST_FREE_BYTES = 8 * 2**20
"""More than an attempt that died of a full disk leaves free when its folder is removed."""
LOG_QUOTA_BYTES = 64 * 1024


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return compile_library(tmp_path_factory.mktemp("library"))


class FaultySite(Site):
    """A stack whose worker reaches the service through a proxy.

    Attributes:
        service_faults: Faults of the service's disk and clock.
        worker_faults: Faults of the worker's.
        is_small: Whether the state folder is on a small, separate disk.
    """

    def __init__(self, stack, proxy, *, service_faults, worker_faults, is_small):
        super().__init__(stack)
        self.proxy = proxy
        self.service_faults = service_faults
        self.worker_faults = worker_faults
        self.is_small = is_small

    def statuses(self, job_id):
        return [str(attempt.status) for attempt in self.client.job(job_id).attempts]

    def assert_whole(self, job_id, *, steps):
        """Every event and every step arrived once and in order."""
        seqs = [event.seq for event in self.client.events(job_id)]
        assert seqs == list(range(1, len(seqs) + 1))
        assert list(self.losses(job_id)) == list(range(1, steps + 1))

    def succeed_whole(self, job_id, *, steps, statuses=("succeeded",)):
        self.wait_for_success(job_id)
        assert self.statuses(job_id) == list(statuses)
        self.assert_whole(job_id, steps=steps)

    def ask(self, method, path, *, headers=None, **content):
        """One request without the client's retries."""
        headers = {"Authorization": f"Bearer {self.stack.admin_key}", **(headers or {})}
        url = f"{self.stack.url}{path}"
        return httpx.request(method, url, headers=headers, timeout=60, **content)

    def ask_to_train(self, name):
        spec = {"dataset": "builtin:digits", "model": "amdnet", "training": {"epochs": 1}}
        return self.ask("POST", "/v1/jobs", json={**spec, "name": name})

    @contextmanager
    def full_disk(self):
        """No byte of the small disk is free."""
        if not self.is_small:
            pytest.skip("only root can mount a small disk")
        filler = self.stack.state_dir / "filler"
        try:
            fill(filler)
            assert shutil.disk_usage(self.stack.state_dir).free < 65536
            yield
        finally:
            filler.unlink()


@pytest.fixture(scope="session")
def shared_faulty(tmp_path_factory, library):
    folder = tmp_path_factory.mktemp("faulty")
    disk = folder / "disk"
    disk.mkdir()
    proxy = Proxy()
    with small_disk(disk) as is_small:
        state = disk / "state"
        state.mkdir(mode=0o700)
        service = Faults(library, folder / "service", below=state)
        worker = Faults(library, folder / "worker", below=state / "worker")
        stack = Stack(
            state,
            environment={
                **SHORT_TIMES, **FAKES, **service.environment,
                "REDKILN_LOG_QUOTA_BYTES": str(LOG_QUOTA_BYTES),
                "REDKILN_LEASE_SECONDS": str(LEASE_SECONDS), "REDKILN_POLL_SECONDS": "0.5",
                "REDKILN_WORKER_MIN_FREE_BYTES": str(LEAST_FREE_BYTES),
            },
            num_workers=0,
        )  # fmt: skip
        with stack:
            proxy.target = stack.url
            part = stack.add_worker(REDKILN_SERVICE_URL=proxy.url, **worker.environment)
            stack.wait_for_worker(part)
            site = FaultySite(
                stack, proxy, service_faults=service, worker_faults=worker, is_small=is_small
            )
            try:
                yield site
            finally:
                site.close()
        proxy.close()


@pytest.fixture
def faulty(shared_faulty):
    """The stack, whole again before each test."""
    shared_faulty.restore()
    return shared_faulty
