"""Where the validation curves of default jobs end, and what early stopping would save and cost.

The rate of a default job falls along a cosine that ends with the last epoch. Stopping early changes
nothing before it stops, so what each patience would have kept is read from one whole curve. Results
are printed as Markdown for `results/`.

`python -m bench.accuracy curves [--only NAME]`
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.accuracy.default_job import TASKS, write_table
from bench.accuracy.table_sets import list_table_sets
from bench.accuracy.text_sets import read_docstrings
from bench.image_archives import CIFAR, DATA, archive_dataset, thin_archive
from bench.training.job_loop import JobLoop, write_job
from bench.training.text import describe_texts, write_text_job
from redkiln.spec.job_spec import EarlyStopping
from worker.checkpoints.history import Points
from worker.jobdir import JobDir, LocalDataset
from worker.trainer.loop.patience import last_improvement

PATIENCES = {"images": (2, 3), "texts": (2, 3), "tables": (8, 16)}
MNIST = DATA / "mnist-12k.zip"
TABLES = ("breast cancer", "wine", "diabetes", "survivors", "moons", "friedman 1")


@dataclass(frozen=True)
class Stop:
    """Where a patience ends a curve.

    Attributes:
        epochs: Epochs that are trained.
        kept: Metric of the best of these epochs by loss.
    """

    epochs: int
    kept: float


def find_stop(losses: Points, scores: Points, *, patience: int) -> Stop:
    """Return where training would have stopped by `val/loss`, and the score that it would keep.

    Args:
        losses: Validation loss of each epoch of a whole run.
        scores: Score of the same epochs, for instance accuracy.
        patience: Epochs to wait for a better loss.
    """
    rule = EarlyStopping(patience=patience)
    for seen in range(1, len(losses) + 1):
        best = last_improvement(losses[:seen], rule, is_lower_better=True)
        if seen - 1 - best >= patience:
            break
    return Stop(seen, scores[best][1])


def list_jobs() -> dict[str, tuple[str, Callable[[Path], JobDir]]]:
    """Return the kind and the writer of each job, by its name."""
    jobs: dict[str, tuple[str, Callable[[Path], JobDir]]] = {
        "digits, mnist-cnn": ("images", _write_digits),
        "2,000 of MNIST, mnist-cnn": ("images", partial(_write_part, MNIST, grey_side=28)),
        "2,000 of CIFAR-10, amdnet": ("images", partial(_write_part, CIFAR)),
        "SMS spam": ("texts", lambda root: write_text_job(root / "texts", training={})[0]),
        "Python's docstrings": ("texts", _write_docstrings),
    }
    for name in TABLES:
        jobs[f"{name}, mlp"] = ("tables", partial(_write_rows, name))
    return jobs


def _write_digits(root: Path) -> JobDir:
    digits = LocalDataset(name="digits", kind="builtin", fingerprint="digits")
    return write_job(root, {"task": "image-classification", "dataset": "bench"}, digits)


def _write_part(archive: Path, root: Path, *, grey_side: int | None = None) -> JobDir:
    part = thin_archive(archive, root / "part.zip", counts={"train": 200, "test": 20})
    dataset = archive_dataset(part, root, grey_side=grey_side)
    model = "amdnet" if grey_side is None else "auto"
    spec = {"task": "image-classification", "dataset": "bench", "model": model}
    return write_job(root, spec, dataset)


def _write_docstrings(root: Path) -> JobDir:
    spec = {"task": "text-classification", "dataset": "bench"}
    return write_job(root, spec, describe_texts(root, read_docstrings()))


def _write_rows(name: str, root: Path) -> JobDir:
    (table,) = (table for table in list_table_sets() if table.name == name)
    rows = table.split(0)
    dataset = write_table(rows, root / "table.parquet")
    spec = {"task": TASKS[rows.is_regression], "dataset": "bench", "model": "mlp"}
    return write_job(root, spec, dataset)


def train(job_dir: JobDir) -> dict[str, Points]:
    """Train a whole job and return its curves."""
    with closing(JobLoop(job_dir)) as job:
        job.loop.run()
        return job.loop.history.series


def describe(name: str, kind: str, curves: dict[str, Points]) -> str:
    """Return a row of the Markdown table."""
    losses = curves["val/loss"]
    metric = "val/accuracy" if "val/accuracy" in curves else "val/rmse"
    scores = curves[metric]
    whole = find_stop(losses, scores, patience=len(losses))
    best = 1 + last_improvement(losses, EarlyStopping(), is_lower_better=True)
    cells: list[Any] = [name, len(losses), best, f"{whole.kept:.4g} ({metric})"]
    for patience in PATIENCES[kind]:
        stop = find_stop(losses, scores, patience=patience)
        cells.append(f"{patience}: {stop.epochs} epochs, {stop.kept:.4g}")
    return "| " + " | ".join(map(str, cells)) + " |"


def main(arguments: Sequence[str]) -> None:
    """Train the jobs one after the other, and print a line for each."""
    jobs = list_jobs()
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy curves")
    parser.add_argument("--only", action="append", choices=jobs, help="a job, may be repeated")
    chosen = parser.parse_args(arguments).only or jobs
    print("| job | epochs | best by loss | score there | with a patience | with a longer one |")
    print("| -- | -- | -- | -- | -- | -- |", flush=True)
    for name in chosen:
        kind, write = jobs[name]
        with tempfile.TemporaryDirectory(prefix="bench-curves-") as folder:
            print(describe(name, kind, train(write(Path(folder)))), flush=True)
