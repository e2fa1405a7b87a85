"""A whole job on real data, trained, exported and scored like a user's job."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.training.job_loop import write_job
from worker.jobdir import LocalDataset
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job


@dataclass(frozen=True)
class Trained:
    """Outcome of a job.

    Attributes:
        metrics: Metrics of its result, on the test split.
        is_verified: Whether the exported model passed verification.
        training: Training section of the resolved spec.
        model_name: Name of the model in the resolved spec.
        seconds: Seconds of training, including preparation.
        cpu_seconds: Processor time of the same.
        verification: Differences and verdict of the gate, as in `manifest.json`.
        variants: All files by their names, as `manifest.json` describes them.
    """

    metrics: dict[str, float]
    is_verified: bool
    training: dict[str, Any]
    model_name: str
    seconds: float
    cpu_seconds: float
    verification: dict[str, Any]
    variants: dict[str, Any]


def train_job(spec: dict[str, Any], dataset: LocalDataset, root: Path) -> Trained:
    """Train, export and score one job in an empty folder."""
    job_dir = write_job(root, spec, dataset)
    start, cpu_start = time.perf_counter(), time.process_time()
    trained, exported = run_job(job_dir, StopSignal()), None
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    if trained == 0:
        exported = export_job(job_dir)
    events = [json.loads(line) for line in job_dir.events_path.read_text().splitlines()]
    if exported != 0:
        failures = [event["data"] for event in events if event["kind"] == "failure"]
        raise RuntimeError(f"the job failed: {failures}")
    result = next(event["data"] for event in events if event["kind"] == "result")
    resolved = [event["data"]["spec"] for event in events if event["kind"] == "resolved"][-1]
    (path,) = job_dir.root.rglob("manifest.json")
    manifest = json.loads(path.read_text())
    return Trained(
        metrics=result["metrics"],
        is_verified=result["verified"],
        training=resolved["training"],
        model_name=resolved["model"]["name"],
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        verification=manifest["verification"],
        variants={one["name"]: one for one in manifest["variants"]},
    )
