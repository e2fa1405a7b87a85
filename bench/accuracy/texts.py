"""Jobs of each quality on texts: accuracy under ONNX Runtime, and time of training.

The texts are sentences of Python's own documentation (`text_sets`); the class is the package. Each
job has default settings except for its quality. Results are printed as Markdown for `results/`.

`python -m bench.accuracy texts [--texts N] [--epochs N] [--only QUALITY]`
"""

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.accuracy.default_job import open_best, train_job
from bench.accuracy.text_sets import read_docstrings
from bench.training.job_loop import write_job
from bench.training.text import describe_texts
from worker.export.onnx_file import open_session, write_onnx
from worker.export.parity import onnx_predict, predict_all

QUALITIES = ("fast", "balanced", "best")
BATCH = 64


def measure(quality: str, rows: list[tuple[str, str]], *, training: dict[str, Any]) -> str:
    """Train a job, score its ONNX file, and return a row of the table."""
    with tempfile.TemporaryDirectory(prefix="bench-texts-") as folder:
        root = Path(folder)
        spec = {"task": "text-classification", "dataset": "bench", "quality": quality}
        job_dir = write_job(root, {**spec, "training": training}, describe_texts(root, rows))
        start, cpu_start = time.perf_counter(), time.process_time()
        resolved = train_job(job_dir)
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        target, path = open_best(job_dir, resolved), root / "model.onnx"
        write_onnx(target.exportable, path, opset=target.spec.export.opset, metadata={})
        predict, test = onnx_predict(open_session(path, threads=1)), target.rows["test"]
        outputs = predict_all(predict, target.samples, test, batch_size=BATCH)
        right = outputs.argmax(axis=1) == np.asarray(target.targets)[test]
    epochs = resolved.model_dump()["training"]["epochs"]
    cells = [quality, len(rows), epochs, f"{right.mean():.1%} of {len(test)}"]
    return f"| {' | '.join(map(str, cells))} | {cpu_seconds:.0f} | {seconds:.0f} |"


def main(arguments: Sequence[str]) -> None:
    """Measure jobs one after the other, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy texts")
    parser.add_argument("--texts", type=int, help="texts to take, for training and test")
    parser.add_argument("--epochs", type=int, help="another length than that of the quality")
    parser.add_argument("--only", action="append", choices=QUALITIES, help="may be repeated")
    asked = parser.parse_args(arguments)
    rows = read_docstrings()
    random.Random(0).shuffle(rows)
    training = {} if asked.epochs is None else {"epochs": asked.epochs}
    print(
        "| quality | texts | epochs | test accuracy | CPU s | s |\n| -- | -- | -- | -- | -- | -- |"
    )
    for quality in asked.only or QUALITIES:
        print(measure(quality, rows[: asked.texts], training=training), flush=True)
