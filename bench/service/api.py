"""Speed of the API: one job compared with a bare route, a page of jobs, a chart of many points."""

import statistics
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import numpy as np
from sqlmodel import Session, select

from bench.result import Result, at_least, at_most, percentile, spread
from bench.service.load import run_load
from bench.service.process import run_service, settings_for
from bench.service.server import BARE_PATH
from redkiln.tasks import parse_spec
from service.attempts.models import Attempt
from service.database import Database
from service.datasets.models import Dataset
from service.datasets.rules import ensure_builtins
from service.ids import new_id
from service.jobs.models import JOB
from service.metrics.chunks import append_points
from service.settings import Settings

NUM_JOBS = 100_000
NUM_QUEUED = 33_000
NUM_POINTS = 1_000_000
CHART_POINTS = 500
PAGE = 50
PAIRS = 15
PAIR_SECONDS = 1.0
CONNECTIONS = 8
SUBMITTERS = 8
SUBMISSIONS_PER_SECOND = 100


def run() -> list[Result]:
    """Measure a service with 100,000 jobs: a third are queued, and one has 10^6 points."""
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_for(Path(folder))
        job_ids = _fill(settings)
        with run_service(settings) as url:
            return [
                _job_over_bare(settings, job_ids[0], what="a finished job", target=0.08),
                _job_over_bare(
                    settings,
                    job_ids[-1],
                    what=f"a job behind {NUM_QUEUED} others",
                    target=0.08,
                    name="api/queued_job_over_bare_route",
                ),
                _listing(url, job_ids),
                _listing_while_writing(url, job_ids),
                _chart(url, job_ids[0]),
            ]


def _fill(settings: Settings) -> list[str]:
    settings.prepare_state_dir()
    database = Database(settings.resolved_database_url)
    database.upgrade()
    database.write(ensure_builtins)
    dataset_id = database.read(lambda s: s.exec(select(Dataset.id).limit(1)).one())
    spec = parse_spec({"dataset": "builtin:digits"}, default_task="image-classification")
    start = datetime.now(UTC) - timedelta(days=1)
    rows = [
        {
            "id": new_id("job"),
            "name": f"job {number}",
            "task": spec.task,
            "dataset_id": dataset_id,
            "status": "succeeded" if number < NUM_JOBS - NUM_QUEUED - 1 else "queued",
            "spec": spec.model_dump(mode="json"),
            "created_at": start + timedelta(seconds=number / 2),
            "warnings": [],
            "metadata": {},
            "revision": 1,
        }
        for number in range(NUM_JOBS)
    ]

    def fill(session: Session) -> None:
        session.execute(JOB.insert(), rows)
        session.add(
            Attempt(
                id="att_bench",
                job_id=str(rows[0]["id"]),
                number=1,
                fence=1,
                status="succeeded",
                worker_id="wrk_bench",
                boot_id="boot",
                claim_id="claim",
                lease_until_at=start,
                started_at=start,
            )
        )

    def add_series(session: Session) -> None:
        steps = np.arange(NUM_POINTS, dtype=float)
        values = np.exp(-steps / 3e5) + np.random.default_rng(0).normal(0, 0.05, NUM_POINTS)
        points = np.stack([steps, values], axis=1)
        job_id = str(rows[0]["id"])
        append_points(
            session,
            job_id=job_id,
            attempt_id="att_bench",
            name="train/loss",
            points=points.tolist(),
        )

    database.write(fill)
    database.write(add_series)
    database.close()
    return [str(row["id"]) for row in rows]


def _job_over_bare(
    settings: Settings,
    job_id: str,
    *,
    what: str,
    target: float,
    name: str = "api/job_over_bare_route",
) -> Result:
    ratios, bares, jobs = [], [], []
    for pair in range(PAIRS + 1):
        rates = {}
        paths = [BARE_PATH, f"/v1/jobs/{job_id}"]
        for path in paths if pair % 2 else reversed(paths):
            load = run_load(
                settings.host,
                settings.port,
                path,
                connections=CONNECTIONS,
                seconds=PAIR_SECONDS,
            )
            rates[path] = load.requests_per_second
        if pair:  # the first pair warms up both
            bares.append(rates[paths[0]])
            jobs.append(rates[paths[1]])
            ratios.append(rates[paths[1]] / rates[paths[0]])
    detail = (
        f"GET /v1/jobs/ID of {what}: {statistics.median(jobs):.0f}/s; bare route: "
        f"{statistics.median(bares):.0f}/s, {CONNECTIONS} connections; {spread(ratios)}"
    )
    value = statistics.median(jobs) / statistics.median(bares)
    return at_least(name, value, "ratio", target, detail)


def _listing(url: str, job_ids: list[str]) -> Result:
    seconds = _time_pages(url, job_ids)
    detail = f"{PAGE} of {NUM_JOBS} jobs from the middle; {spread(seconds)}"
    return at_most("api/listing_p99", percentile(seconds, 0.99) * 1000, "ms", 25, detail)


def _listing_while_writing(url: str, job_ids: list[str]) -> Result:
    """Time pages while jobs are submitted at a steady rate."""
    is_over = threading.Event()
    submitted: list[int] = []

    def submit() -> None:
        with httpx.Client(base_url=url) as client:
            while not is_over.wait(SUBMITTERS / SUBMISSIONS_PER_SECOND):
                answer = client.post("/v1/jobs", json={"dataset": "builtin:digits"})
                submitted.append(answer.raise_for_status().status_code)

    threads = [threading.Thread(target=submit) for _ in range(SUBMITTERS)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    seconds = [each for _ in range(3) for each in _time_pages(url, job_ids, pause_seconds=0.01)]
    is_over.set()
    for thread in threads:
        thread.join()
    rate = len(submitted) / (time.perf_counter() - started)
    detail = (
        f"{PAGE} of {NUM_JOBS} jobs from the middle, while {rate:.0f} jobs a second are "
        f"submitted; {spread(seconds)}"
    )
    return at_most("api/listing_p99_in_writes", percentile(seconds, 0.99) * 1000, "ms", 25, detail)


def _time_pages(url: str, job_ids: list[str], *, pause_seconds: float = 0.0) -> list[float]:
    seconds = []
    with httpx.Client(base_url=url) as client:
        for number in range(300):
            time.sleep(pause_seconds)
            after = job_ids[NUM_JOBS // 2 + number]
            started = time.perf_counter()
            answer = client.get("/v1/jobs", params={"after": after, "limit": PAGE})
            seconds.append(time.perf_counter() - started)
            answer.raise_for_status()
            assert len(answer.json()["data"]) == PAGE
    return seconds


def _chart(url: str, job_id: str) -> Result:
    seconds = []
    with httpx.Client(base_url=url) as client:
        for _ in range(21):
            started = time.perf_counter()
            answer = client.get(
                f"/v1/jobs/{job_id}/metrics",
                params={"names": "train/loss", "max_points": CHART_POINTS},
            )
            seconds.append(time.perf_counter() - started)
            answer.raise_for_status()
            (series,) = answer.json()["series"]
            assert series["num_points"] == NUM_POINTS
            assert len(series["steps"]) <= CHART_POINTS
    detail = f"{NUM_POINTS} points reduced to {CHART_POINTS}; {spread(seconds)}"
    return at_most("api/chart", statistics.median(seconds) * 1000, "ms", 150, detail)
