"""Jobs of each quality on texts: accuracy under ONNX Runtime, and time of training.

The sets are in `text_sets`. Each job has default settings except for its quality and model, and as
many epochs as the service gives so few texts. Results are printed as Markdown for `results/`.

`python -m bench.accuracy texts [--set NAME] [--texts N] [--test N] [--model NAME] [--only QUALITY]`
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
from bench.accuracy.text_sets import SETS
from bench.training.job_loop import write_job
from bench.training.text import describe_texts
from redkiln.datasets import TEST_FRACTION
from redkiln.spec.quality import lengthen
from redkiln.tasks import parse_spec
from worker.export.onnx_file import open_session, write_onnx
from worker.export.parity import onnx_predict, predict_all

QUALITIES = ("fast", "balanced", "best")
BATCH = 64


def measure(
    quality: str,
    rows: list[tuple[str, str]],
    *,
    training: dict[str, Any],
    model: str,
    num_test: int | None,
) -> str:
    """Train a job, score its ONNX file, and return the last cells of a row of the table."""
    with tempfile.TemporaryDirectory(prefix="bench-texts-") as folder:
        root = Path(folder)
        spec = {"task": "text-classification", "dataset": "bench", "quality": quality}
        spec |= {"training": training, "model": model}
        if "epochs" not in training:
            num_train = len(rows) - (num_test or round(len(rows) * TEST_FRACTION))
            usual = parse_spec(spec).model_dump()["training"]["epochs"]
            spec["training"] = {**training, "epochs": lengthen(usual, num_train=num_train)}
        job_dir = write_job(root, spec, describe_texts(root, rows, num_test=num_test))
        start, cpu_start = time.perf_counter(), time.process_time()
        resolved = train_job(job_dir)
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        target, path = open_best(job_dir, resolved), root / "model.onnx"
        write_onnx(target.exportable, path, opset=target.spec.export.opset, metadata={})
        predict, test = onnx_predict(open_session(path, threads=1)), target.rows["test"]
        outputs = predict_all(predict, target.samples, test, batch_size=BATCH)
        right = outputs.argmax(axis=1) == np.asarray(target.targets)[test]
    dumped = resolved.model_dump()
    cells = [quality, dumped["model"]["name"], len(rows) - len(test), dumped["training"]["epochs"]]
    cells += [f"{right.mean():.1%} of {len(test)}", f"{cpu_seconds:.0f}", f"{seconds:.0f}"]
    return " | ".join(map(str, cells))


def main(arguments: Sequence[str]) -> None:
    """Measure jobs one after the other, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy texts")
    parser.add_argument("--set", choices=SETS, default="docstrings", help="what to read")
    parser.add_argument("--texts", type=int, help="texts to take, for training and test")
    parser.add_argument("--test", type=int, help="how many of the last texts to keep for the test")
    parser.add_argument("--epochs", type=int, help="another length than that of the quality")
    parser.add_argument("--model", default="auto", help="name of the model")
    parser.add_argument("--only", action="append", choices=QUALITIES, help="may be repeated")
    asked = parser.parse_args(arguments)
    rows = SETS[asked.set]()
    random.Random(0).shuffle(rows)
    taken = rows[: asked.texts]
    if asked.test is not None:
        taken = rows[: asked.texts - asked.test] + rows[-asked.test :]
    training = {} if asked.epochs is None else {"epochs": asked.epochs}
    print("| set | quality | model | training texts | epochs | test accuracy | CPU s | s |")
    print("| -- " * 8 + "|")
    for quality in asked.only or QUALITIES:
        cells = measure(quality, taken, training=training, model=asked.model, num_test=asked.test)
        print(f"| {asked.set} | {cells} |", flush=True)
