"""A whole job on real data: trained, exported and scored as a user's would be."""

import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.training import index_archive
from worker.export.run import export_job
from worker.jobdir import JobDir, LocalDataset, Order
from worker.trainer.lifetime import StopSignal
from worker.trainer.run import run_job

DATA = Path(__file__).parents[2] / "shared" / "data"


@dataclass(frozen=True)
class Trained:
    """What became of a job.

    Attributes:
        metrics: of its result, on the test split.
        training: of the resolved spec.
        seconds: of training, preparation included.
    """

    metrics: dict[str, float]
    is_verified: bool
    training: dict[str, Any]
    model_name: str
    seconds: float


def train_job(spec: dict[str, Any], dataset: LocalDataset, root: Path) -> Trained:
    """Train, export and score one job in an empty folder, on the CPU."""
    job_dir = write_job(root, spec, dataset, device="cpu")
    start = time.perf_counter()
    trained, exported = run_job(job_dir, StopSignal()), None
    seconds = time.perf_counter() - start
    if trained == 0:
        exported = export_job(job_dir)
    events = [json.loads(line) for line in job_dir.events_path.read_text().splitlines()]
    if exported != 0:
        failures = [event["data"] for event in events if event["kind"] == "failure"]
        raise RuntimeError(f"the job failed: {failures}")
    result = next(event["data"] for event in events if event["kind"] == "result")
    resolved = [event["data"]["spec"] for event in events if event["kind"] == "resolved"][-1]
    return Trained(
        metrics=result["metrics"],
        is_verified=result["verified"],
        training=resolved["training"],
        model_name=resolved["model"]["name"],
        seconds=seconds,
    )


def archive_dataset(archive: Path, root: Path, *, grey_side: int | None = None) -> LocalDataset:
    """A zip of `train/<class>/*` and `test/<class>/*`, with its index below `root`.

    Args:
        archive: of images of 32 pixels in colour.
        root: where the index is written.
        grey_side: of grey images, in pixels, if they are that.
    """
    index = index_archive(archive)
    if grey_side is not None:
        grey = {"image_size": (grey_side, grey_side), "channels": 1}
        index = index.model_copy(update=grey)
    index_path = root / "index.json"
    index_path.write_text(index.model_dump_json())
    return LocalDataset(
        name="bench",
        kind="archive",
        path=str(archive),
        index_path=str(index_path),
        fingerprint=hashlib.sha256(archive.read_bytes()).hexdigest(),
    )


def write_job(root: Path, spec: dict[str, Any], dataset: LocalDataset, *, device: str) -> JobDir:
    """A job directory below `root`, ready to train."""
    order = Order(
        job_id="job_bench",
        job_name="bench",
        attempt_id="att_bench",
        spec=spec,
        dataset=dataset,
        device=device,
        threads=torch.get_num_threads(),
        cache_dir=str(root / "cache"),
    )
    job_dir = JobDir(root / "job")
    job_dir.root.mkdir()
    job_dir.order_path.write_text(order.model_dump_json())
    return job_dir
