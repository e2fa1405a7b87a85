"""How fast 100,000 jobs are searched and sorted, as a person's home view asks for them."""

import statistics
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from sqlmodel import Session

from bench.result import Result, at_most, percentile, spread
from bench.service.process import run_service, settings_for
from redkiln.tasks import parse_spec
from redkiln.views.result import Outcome
from service.database import Database
from service.datasets.rules import ensure_builtins, find_dataset
from service.ids import new_id
from service.jobs.lists.place import first_place
from service.jobs.lists.search import search_text
from service.jobs.models import JOB, JOB_METADATA, JOB_METRIC
from service.settings import Settings

NUM_JOBS = 100_000
NUM_QUEUED = 20_000
PAGE = 50
REPEATS = 21
TARGET_MS = 100
MODELS = ("resnet18", "resnet50", "convnext", "vit")
SETS = ("builtin:digits", "builtin:mnist", "builtin:fashion-mnist")
QUERIES = {
    "newest": {},
    "rare word": {"q": "sweep-077777"},
    "no match": {"q": "elephants"},
    "two common words": {"q": "resnet mnist"},
    "no match, by end": {"q": "elephants", "sort": "-ended"},
    "by name": {"sort": "name"},
    "by end": {"sort": "-ended"},
    "by priority": {"sort": "-priority"},
    "by accuracy": {"sort": "-test/accuracy"},
    "rare word, by accuracy": {"q": "sweep-077777", "sort": "-test/accuracy"},
    "failed, by end": {"status": "failed", "sort": "-ended"},
    "queue": {"sort": "queue"},
    "by metadata": {"metadata.sweep": "777"},
}


def run() -> list[Result]:
    """Measure lists of a service with 100,000 jobs, a fifth of them queued."""
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_for(Path(folder))
        fill(settings)
        with run_service(settings) as url, httpx.Client(base_url=url, timeout=60) as client:
            return [
                _measure(client, f"lists/{what.replace(' ', '_')}", "/v1/jobs", query)
                for what, query in QUERIES.items()
            ] + [_measure(client, "lists/overview", "/v1/overview", {}, pause_seconds=1.1)]


def fill(settings: Settings) -> None:
    """Create a database with 100,000 jobs: most ended with results, the last ones queued."""
    database, dataset_ids = new_database(settings)
    rows = list(_rows(dataset_ids))
    metrics = [
        {"job_id": row["id"], "name": name, "value": value}
        for row in rows
        if row["result"] is not None
        for name, value in row["result"]["metrics"].items()
    ]

    entries = [
        {"job_id": row["id"], "key": key, "value": value}
        for row in rows
        for key, value in row["metadata"].items()
    ]

    def write(session: Session) -> None:
        session.execute(JOB.insert(), rows)
        session.execute(JOB_METADATA.insert(), entries)
        session.execute(JOB_METRIC.insert(), metrics)

    database.write(write)
    database.close()


def new_database(settings: Settings) -> tuple[Database, dict[str, str]]:
    """Create a database; return it with the ids of its data sets by name."""
    settings.prepare_state_dir()
    database = Database(settings.resolved_database_url)
    database.upgrade()
    database.write(ensure_builtins)
    dataset_ids = {
        name: database.read(lambda s, name=name: find_dataset(s, name).id)  # type: ignore[misc,union-attr]
        for name in SETS
    }
    return database, dataset_ids


def _rows(dataset_ids: dict[str, str]) -> Iterator[dict[str, Any]]:
    random = np.random.default_rng(0)
    start = datetime.now(UTC) - timedelta(days=30)
    specs = {
        model: parse_spec({"dataset": SETS[0], "model": model}, default_task=_TASK).model_dump(
            mode="json"
        )
        for model in MODELS
    }
    for number in range(NUM_JOBS):
        job_id, name = new_id("job"), f"sweep-{number:06}"
        model, dataset = MODELS[number % len(MODELS)], SETS[number % len(SETS)]
        created_at = start + timedelta(seconds=20 * number)
        has_ended = number < NUM_JOBS - NUM_QUEUED
        accuracy = float(random.uniform(0.5, 1))
        outcome = Outcome(metrics={"test/accuracy": accuracy, "test/loss": 1 - accuracy})
        yield {
            "id": job_id,
            "name": name,
            "task": _TASK,
            "dataset_id": dataset_ids[dataset],
            "dataset_name": dataset,
            "model": model,
            "search_text": search_text(
                name=name, job_id=job_id, dataset_name=dataset, model=model, task=_TASK
            ),
            "place": first_place(job_id),
            "status": ("failed" if number % 100 == 0 else "succeeded") if has_ended else "queued",
            "spec": specs[model],
            "resolved_spec": specs[model] if has_ended else None,
            "result": outcome.model_dump(mode="json") if has_ended else None,
            "created_at": created_at,
            "finished_at": created_at + timedelta(hours=1) if has_ended else None,
            "warnings": [],
            "metadata": {"sweep": str(number % 1000)},
            "revision": 1,
        }


def _measure(
    client: httpx.Client, name: str, path: str, query: dict[str, str], *, pause_seconds: float = 0
) -> Result:
    seconds = []
    for _ in range(REPEATS):
        time.sleep(pause_seconds)  # an overview is kept for a second
        started = time.perf_counter()
        answer = client.get(path, params=query and {**query, "limit": PAGE})
        seconds.append(time.perf_counter() - started)
        answer.raise_for_status()
    asked = "&".join(f"{key}={value}" for key, value in query.items())
    detail = (
        f"GET {path}?{asked} of {NUM_JOBS} jobs; 90 % within "
        f"{1000 * percentile(seconds, 0.9):.0f} ms; {spread(seconds)}"
    )
    return at_most(name, 1000 * statistics.median(seconds), "ms", TARGET_MS, detail)


_TASK = "image-classification"
