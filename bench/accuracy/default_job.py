"""A job with default settings, trained by its own loop and scored under ONNX Runtime.

The rehearsal, the figures and the report of a whole job are left out, because they take longer than
the training of such small tables.
"""

import hashlib
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pyarrow as pa
import torch
from pyarrow import parquet
from scipy.special import softmax
from sklearn.metrics import f1_score

from bench.accuracy.competitors import Score, score
from bench.accuracy.table_sets import Rows
from bench.training.job_loop import JobLoop, write_job
from redkiln.datasets import rank_within_classes
from redkiln.events import EventWriter
from redkiln.spec.job_spec import JobSpec, TrainingSpec
from redkiln.spec.tabular import TabularSpec
from redkiln.tables import METADATA_KEY, RANK, TARGET, Column, TableIndex
from redkiln.tasks import parse_spec
from redkiln.views.comparison import ThresholdChoice
from worker.checkpoints.checkpoint import CheckpointStore
from worker.export.onnx_file import open_session, write_onnx
from worker.export.parity import onnx_predict, predict_all
from worker.export.target import ExportTarget
from worker.jobdir import EXIT_DONE, JobDir, LocalDataset
from worker.process.event_log import EventLog
from worker.process.lifetime import StopSignal
from worker.results.trained import Trained
from worker.tasks import load_task
from worker.tasks.tabular.exported import CODES, NUMBERS
from worker.tasks.tabular_classification.setup import TASK as TABLES
from worker.tasks.train import run_job

BATCH = 100
"""Images that are scored at once."""
TASKS = {True: "tabular-regression", False: "tabular-classification"}


def score_job(
    rows: Rows, *, model: str | None = None, training: Mapping[str, Any] | None = None
) -> Score:
    """Train a job and return its scores on the test rows.

    Args:
        rows: The table.
        model: Name of the model; None for the default.
        training: Fields of `training` in the spec.
    """
    with tempfile.TemporaryDirectory(prefix="bench-tables-") as folder:
        root = Path(folder)
        dataset = write_table(rows, root / "table.parquet")
        spec: dict[str, Any] = {"task": TASKS[rows.is_regression], "dataset": "bench"}
        spec |= {} if training is None else {"training": dict(training)}
        job_dir = write_job(root, spec if model is None else {**spec, "model": model}, dataset)
        start = time.process_time()
        resolved = train_job(job_dir)
        seconds = time.process_time() - start
        target, path = open_best(job_dir, resolved), root / "model.onnx"
        write_onnx(target.exportable, path, opset=target.spec.export.opset, metadata={})
        outputs = _predict(path, rows)
        labels = rows.targets[rows.num_train :]
        choice = _choose_threshold(job_dir, resolved, target)
        at_threshold = None if choice is None else _score_threshold(choice, outputs, labels)
    if not rows.is_regression:
        outputs = softmax(outputs.astype(np.float64), axis=1)
    return replace(score(labels, outputs, seconds=seconds), f1_at_threshold=at_threshold)


def _choose_threshold(
    job_dir: JobDir, resolved: JobSpec, target: ExportTarget
) -> ThresholdChoice | None:
    """Return the threshold that the report would offer."""
    rows = target.rows["validation"]
    if isinstance(resolved, TabularSpec) and resolved.num_folds:
        with EventWriter(job_dir.root / "folds.jsonl") as writer:
            log = EventLog(writer, progress_seconds=60.0)
            return TABLES.cross_validate(
                job_dir.load_order(),
                resolved,
                device=torch.device("cpu"),
                event_log=log,
                should_stop=lambda: False,
            ).threshold
    if target.held_out is not None:
        return target.scoring.choose_threshold(lambda: target.held_out)
    if not len(rows):
        return None
    validation = target.exportable.predict(target.samples.feed(target.samples.get(rows)))
    known = (validation.astype(np.float32), target.targets[rows].astype(np.int64))
    return target.scoring.choose_threshold(lambda: known)


def _score_threshold(choice: ThresholdChoice, logits: np.ndarray, labels: np.ndarray) -> float:
    """Return macro F1 on the test rows at a threshold."""
    share = softmax(logits.astype(np.float64), axis=1)[:, choice.label]
    is_chosen = share >= choice.probability
    return float(f1_score(labels == choice.label, is_chosen, average="macro"))


def train_job(job_dir: JobDir) -> JobSpec:
    """Train without a rehearsal, and return the resolved spec."""
    spec = parse_spec(job_dir.load_order().spec)
    if isinstance(spec, TrainingSpec) and spec.is_estimator:
        # Estimators are never rehearsed, so the trainer itself can run.
        assert run_job(job_dir, StopSignal()) == EXIT_DONE
        trained = Trained.model_validate_json(job_dir.trained_path.read_bytes())
        return parse_spec(trained.spec)
    with closing(JobLoop(job_dir)) as job:
        job.loop.run()
        return job.setup.spec


def score_images(job_dir: JobDir, resolved: JobSpec, path: Path) -> float:
    """Export the best weights to a path; return the ONNX file's share of right test images."""
    target = open_best(job_dir, resolved)
    write_onnx(target.exportable, path, opset=target.spec.export.opset, metadata={})
    rows, predict = target.rows["test"], onnx_predict(open_session(path, threads=1))
    outputs = predict_all(predict, target.samples, rows, batch_size=BATCH)
    return float((outputs.argmax(axis=1) == np.asarray(target.targets)[rows]).mean())


def open_best(job_dir: JobDir, resolved: JobSpec) -> ExportTarget:
    """Return the model with the best weights, calibrated as in a job's export."""
    store = CheckpointStore(job_dir.checkpoints_dir)
    best = store.find_best()
    assert best is not None
    checkpoint = store.load(best.name)
    with EventWriter(job_dir.root / "export.jsonl") as writer:
        return load_task(resolved.task).open_target(
            job_dir.load_order(),
            resolved,
            weights=checkpoint.weights,
            event_log=EventLog(writer, progress_seconds=1.0),
            reading=checkpoint.reading,
        )


def write_table(rows: Rows, path: Path) -> LocalDataset:
    """Write a table as the service does, and describe it as a job's order does."""
    index = _index(rows)
    labels = [0] * len(rows.targets) if rows.is_regression else rows.targets.tolist()
    splits = (labels[: rows.num_train], labels[rows.num_train :])
    ranks = [rank for split in splits for rank in rank_within_classes(split, seed=0)]
    features = [*rows.numbers.T, *rows.codes.T.astype(np.int32)]
    names = [column.name for column in index.columns]
    columns = {
        **dict(zip(names, features, strict=True)),
        TARGET: rows.targets.astype(np.float64 if rows.is_regression else np.int32),
        RANK: np.array(ranks, np.int32),
    }
    table = pa.table(columns).replace_schema_metadata({METADATA_KEY: index.model_dump_json()})
    parquet.write_table(table, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return LocalDataset(name="bench", kind="archive", index_path=str(path), fingerprint=digest)


def _index(rows: Rows) -> TableIndex:
    numbers = [
        Column(
            name=f"x{place}",
            type="numeric",
            mean=float(np.nanmean(values)),
            std=float(np.nanstd(values)) or 1.0,
            minimum=float(np.nanmin(values)),
            maximum=float(np.nanmax(values)),
        )
        for place, values in enumerate(rows.numbers[: rows.num_train].T)
    ]
    categories = [
        Column(
            name=f"c{place}",
            type="categorical",
            categories=[f"v{code}" for code in range(int(codes.max()) + 1)],
        )
        for place, codes in enumerate(rows.codes.T)
    ]
    targets = rows.targets[: rows.num_train]
    scale = {}
    if rows.is_regression:
        scale = {"target_mean": float(targets.mean()), "target_std": float(targets.std())}
    return TableIndex(
        task=TASKS[rows.is_regression],
        columns=[*numbers, *categories],
        target="y",
        classes=[] if rows.is_regression else [f"k{label}" for label in np.unique(rows.targets)],
        num_train=rows.num_train,
        num_test=len(rows.targets) - rows.num_train,
        seed=0,
        **scale,
    )


def _predict(path: Path, rows: Rows) -> np.ndarray:
    """Run the exported model on the raw test rows."""
    session = onnxruntime.InferenceSession(path)
    test = slice(rows.num_train, None)
    inputs = {NUMBERS: rows.numbers[test].astype(np.float32), CODES: rows.codes[test]}
    known = {item.name for item in session.get_inputs()}
    (outputs,) = session.run(None, {name: inputs[name] for name in known})
    return np.asarray(outputs)
