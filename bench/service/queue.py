"""How fast jobs come in and go out: submissions, claims, and a claim past jobs that do not fit."""

import http.client
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import insert
from sqlmodel import Session

from bench.result import Result, at_least, at_most, info, percentile, spread
from bench.service.lists import new_database
from bench.service.process import cpu_seconds, run_service, settings_for
from redkiln.protocol import PROTOCOL_VERSION
from redkiln.tasks import parse_spec
from redkiln.version import __version__
from service.ids import new_id
from service.jobs.lists.place import first_place
from service.jobs.models import Job
from service.settings import Settings
from service.workers.needs import needs_of

NUM_SUBMITTED = 2_000
NUM_SUBMITTERS = 8
NUM_CLAIMERS = 64
NUM_UNFITTING = 50_000
NUM_LONE_CLAIMS = 11
SPEC: Mapping[str, Any] = {"dataset": "builtin:digits", "resources": {"device": "cpu"}}


def run() -> list[Result]:
    """Measure a new service, then one with a queue that its worker cannot empty."""
    pids: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_for(Path(folder))
        with run_service(settings, on_start=pids.append) as url:
            service = _Service(url, settings, pids[0])
            results = [*_submit_all(service), *_claim_all(service)]
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_for(Path(folder))
        _queue_unfitting(settings)
        with run_service(settings, on_start=pids.append) as url:
            return [*results, _claim_past_others(_Service(url, settings, pids[1]))]


@dataclass(frozen=True)
class _Service:
    """A running service, for requests of users and workers (only these need a key here)."""

    url: str
    settings: Settings
    pid: int

    def time(self, path: str, bodies: Iterable[Mapping[str, Any]]) -> list[float]:
        """Post each body; return the seconds of each answer. An empty answer ends it."""
        key = self.settings.resolved_worker_key_file.read_text().strip()
        headers = {"Content-Type": "application/json"}
        if path.startswith("/v1/workers"):
            headers["Authorization"] = f"Bearer {key}"
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)
        seconds = []
        for body in bodies:
            started = time.perf_counter()
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            content = response.read()
            if response.status >= 300:
                raise RuntimeError(f"POST {path}: {response.status} {content[:500]!r}")
            if response.status == 204:
                break
            seconds.append(time.perf_counter() - started)
        return seconds


def _submit_all(service: _Service) -> list[Result]:
    each = NUM_SUBMITTED // NUM_SUBMITTERS
    cpu_before = cpu_seconds(service.pid)
    seconds, total = _run_threads(
        NUM_SUBMITTERS, lambda _: service.time("/v1/jobs", (SPEC for _ in range(each)))
    )
    milliseconds = 1000 * (cpu_seconds(service.pid) - cpu_before) / len(seconds)
    detail = (
        f"{len(seconds)} jobs by {NUM_SUBMITTERS} threads; "
        f"{milliseconds:.1f} ms of processor time each; "
        f"s: {spread(seconds)}"
    )
    return [
        at_least("queue/submissions", len(seconds) / total, "/s", 150, detail),
        at_most("queue/submission_p99", 1000 * percentile(seconds, 0.99), "ms", 150, detail),
    ]


def _claim_all(service: _Service) -> list[Result]:
    """Let 64 workers claim until each has found the queue empty once."""
    service.time("/v1/workers/hello", map(_hello, range(NUM_CLAIMERS)))
    cpu_before = cpu_seconds(service.pid)
    seconds, total = _run_threads(
        NUM_CLAIMERS, lambda number: service.time("/v1/workers/claim", _claims(number))
    )
    milliseconds = 1000 * (cpu_seconds(service.pid) - cpu_before) / NUM_SUBMITTED
    detail = (
        f"{NUM_SUBMITTED} jobs by {NUM_CLAIMERS} workers; "
        f"{milliseconds:.1f} ms of processor time each; "
        f"s: {spread(seconds)}"
    )
    return [
        at_least("queue/claims", NUM_SUBMITTED / total, "/s", 100, detail),
        info("queue/claim_p99", 1000 * percentile(seconds, 0.99), "ms", detail),
    ]


def _queue_unfitting(settings: Settings) -> None:
    """Queue jobs for a GPU that no worker has."""
    database, dataset_ids = new_database(settings)
    spec = {**SPEC, "resources": {"device": "gpu", "arch": ["gfx1100"]}}
    body = parse_spec(spec, default_task="image-classification").model_dump(mode="json")
    job_id = new_id("job")
    job = Job(
        id=job_id,
        name=job_id,
        task=body["task"],
        dataset_id=dataset_ids[SPEC["dataset"]],
        place=first_place(job_id),
        status="queued",
        device="gpu",
        spec=body,
        created_at=datetime.now(UTC),
    )
    first = job.model_dump() | {"needs": needs_of(job)}

    def write(session: Session) -> None:
        ids = [new_id("job") for _ in range(NUM_UNFITTING)]
        # Rows instead of objects, which take 1 ms each to build.
        session.execute(
            insert(Job), [{**first, "id": one, "place": first_place(one)} for one in ids]
        )

    database.write(write)
    database.close()


def _claim_past_others(service: _Service) -> Result:
    """Time one worker's claims of the jobs at the end of the queue."""
    service.time("/v1/workers/hello", [_hello(0, arch="gfx1030")])
    spec = {**SPEC, "resources": {"device": "gpu", "arch": ["gfx1030"]}}
    service.time("/v1/jobs", [spec] * NUM_LONE_CLAIMS)
    asked = (_claim(0, number, arch="gfx1030") for number in range(NUM_LONE_CLAIMS))
    seconds = service.time("/v1/workers/claim", asked)
    detail = f"behind {NUM_UNFITTING} queued jobs for another GPU; s: {spread(seconds)}"
    return at_most("queue/claim_past_others", 1000 * percentile(seconds, 0.5), "ms", 100, detail)


def _run_threads(number: int, work: Callable[[int], list[float]]) -> tuple[list[float], float]:
    """Run `work` in threads; return the seconds of all their requests, and of the whole."""
    found: list[float] = []
    threads = [
        threading.Thread(target=partial(lambda n: found.extend(work(n)), n), daemon=True)
        for n in range(number)
    ]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found, time.perf_counter() - started


def _claims(number: int) -> Iterator[dict[str, Any]]:
    return (_claim(number, claim) for claim in range(NUM_SUBMITTED + 1))


def _claim(number: int, claim: int, *, arch: str | None = None) -> dict[str, Any]:
    return {
        "worker_id": _worker_id(number),
        "boot_id": "boot",
        "claim_id": f"claim-{number}-{claim}",
        "devices": ["cpu"] if arch is None else ["gpu"],
        "arches": [] if arch is None else [arch],
    }


def _hello(number: int, *, arch: str | None = None) -> dict[str, Any]:
    gpu = {"index": 0, "name": "GPU", "arch": arch, "memory_bytes": 16 * 1024**3}
    return {
        "worker_id": _worker_id(number),
        "boot_id": "boot",
        "protocol": PROTOCOL_VERSION,
        "version": __version__,
        "hostname": f"host-{number}",
        "slots": 1,
        "gpus": [] if arch is None else [gpu],
    }


def _worker_id(number: int) -> str:
    return f"wrk_{number:08}"
