"""What a made service holds, in the views of `redkiln.views.job` and `redkiln.views.dataset`."""

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

STARTED_AT = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
JOB_ID = "job_0123456789abcdefghijkl"
MODEL = b"not really an onnx " * 5000


@dataclass
class FakeService:
    """What the fake service holds, and how it misbehaves.

    Attributes:
        events: (kind, data) of the one job.
        cut_after: the event stream's connections break after so many messages each.
        failures: (status, headers) that the next requests are answered with.
        requests: (method, path, headers) of all that came.
        asked_jobs: Parameters of the lists of jobs that were asked for.
        bundles: sha256 -> content of the code that was sent.
        corrupt: artifacts arrive with a flipped byte.
        diagnosis: The doctor's answer.
        files: name -> (kind, content) of the artifacts; a model and its report if it is None.
        metrics: Metrics of the job's progress.
        models: Name of a registered model -> version of each alias.
        results: Final metrics of the job.
        preview: media type, step and content of the sample predictions.
        test_samples: The zip with the test split of each data set; None if they have none.
        cut_downloads: bytes after which a download's connection breaks, one for each.
    """

    url: str = ""
    status: str = "succeeded"
    task: str = "image-classification"
    files: dict | None = None
    is_verified: bool = True
    reason: dict | None = None
    events: list = field(default_factory=list)
    warnings: list = field(default_factory=list)
    cut_after: list = field(default_factory=list)
    failures: list = field(default_factory=list)
    requests: list = field(default_factory=list)
    asked_jobs: list = field(default_factory=list)
    attempts: list = field(default_factory=list)
    steered: list = field(default_factory=list)
    diagnosis: dict = field(default_factory=dict)
    estimates: list = field(default_factory=list)
    metrics: dict = field(default_factory=lambda: {"train/loss": 0.5, "val/accuracy": 0.978})
    results: dict = field(
        default_factory=lambda: {"test/accuracy": 0.978, "test/accuracy_onnx": 0.978}
    )
    datasets: dict = field(default_factory=dict)
    models: dict = field(default_factory=dict)
    test_samples: bytes | None = None
    uploads: list = field(default_factory=list)
    upload_queries: list = field(default_factory=list)
    sample_queries: list = field(default_factory=list)
    sample_boxes: list | None = field(
        default_factory=lambda: [{"label": 0, "class_name": "cat", "xyxy": [0, 0, 5, 5]}]
    )
    submitted: list = field(default_factory=list)
    job_names: dict = field(default_factory=lambda: {JOB_ID: "flowers"})
    job_datasets: dict = field(default_factory=dict)
    job_specs: dict = field(default_factory=dict)
    roots: list = field(default_factory=list)
    bundles: dict = field(default_factory=dict)
    allows_scripts: bool = True
    folds: list = field(default_factory=list)
    intervals: dict = field(default_factory=dict)
    dataset_errors: list = field(default_factory=list)
    dataset_warnings: list = field(default_factory=list)
    corrupt: bool = False
    cut_downloads: list = field(default_factory=list)
    preview: tuple | None = None
    log: bytes = b"first line\nsecond line\n"

    def summary(self, job_id=JOB_ID):
        is_terminal = self.status in ("succeeded", "failed", "cancelled")
        return {
            "id": job_id,
            "name": self.job_names[job_id],
            "task": self.task,
            "status": self.status,
            "is_terminal": is_terminal,
            "reason": self.reason,
            "progress": progress(step=90, steps=90, metrics=self.metrics),
            "result": self.result() if is_terminal else None,
            "dataset_id": self.job_datasets.get(job_id, "ds_1"),
            "created_at": STARTED_AT.isoformat(),
            "started_at": STARTED_AT.isoformat(),
            "finished_at": (STARTED_AT + timedelta(seconds=42)).isoformat()
            if is_terminal
            else None,
        }

    def result(self):
        onnx = [name for name in self.results if name.endswith("_onnx")]
        return {
            "metrics": self.results,
            "headline": onnx[0] if onnx else None,
            "intervals": self.intervals,
            "verdict": "verified" if self.is_verified else "unverified",
            "cross_validation": {"folds": self.folds} if self.folds else None,
            "queued_seconds": 3.0,
            "running_seconds": 42.0,
            "phase_seconds": {"preparing": 0.01, "training": 40.0, "exporting": 2.0},
        }

    def view(self, job_id=JOB_ID):
        attempt = {
            "id": "att_1",
            "number": 1,
            "status": "succeeded",
            "worker_id": "wrk_1",
            "started_at": STARTED_AT.isoformat(),
            "finished_at": (STARTED_AT + timedelta(seconds=42)).isoformat(),
        }
        spec = {"dataset": "flowers", "task": self.task, **self.job_specs.get(job_id, {})}
        return {
            **self.summary(job_id),
            "warnings": self.warnings,
            "attempts": self.attempts or [attempt],
            "spec": spec,
            "environment": {"engine": "tinygrad 0.14", "engine_device": "RX 580 (CL:1)"},
        }

    def artifacts(self):
        if self.status != "succeeded" and self.files is None:
            return []
        if self.files is not None:
            verified = {"model": self.is_verified}
            return [
                artifact(name, kind, body, verified=verified.get(kind))
                for name, (kind, body) in self.files.items()
            ]
        return [
            artifact("model.onnx", "model", MODEL, verified=self.is_verified),
            artifact("report.md", "report", b"# Report\n"),
        ]


def progress(*, step, steps, metrics):
    return {
        "epoch": 1 + step // 30,
        "epochs": 3,
        "step": step,
        "steps": steps,
        "fraction": step / steps,
        "samples_per_second": 1234.0,
        "eta_seconds": 3.0,
        "metrics": metrics,
    }


def artifact(name, kind, content, verified=None):
    return {
        "id": f"art_{name.replace('/', '~')}",
        "job_id": JOB_ID,
        "name": name,
        "kind": kind,
        "media_type": "application/octet-stream",
        "size_bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "verified": verified,
        "created_at": STARTED_AT.isoformat(),
        "url": f"/v1/artifacts/art_{name.replace('/', '~')}/content",
    }


def dataset(name, **fields):
    return {
        "id": "ds_1",
        "name": name,
        "status": "ready",
        "kind": "archive",
        "classes": ["daisy", "rose"],
        "counts": {"train": {"daisy": 30, "rose": 20}, "test": {"daisy": 5, "rose": 5}},
        "image_sizes": {"32x32": 60},
        "created_at": STARTED_AT.isoformat(),
        **fields,
    }
