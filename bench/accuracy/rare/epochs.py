"""From which step on an epoch of tabm can be the best, when few validation rows are rare.

`python -m bench.accuracy rare-epochs [--rows N] [--share P] [--seed N] [--data NAME]` trains a job
on each drawn table once and records the outputs for validation and test rows after each epoch. So
all rules choose among the epochs of the same training. It prints for each rule the means of log
loss, AUC and average precision on 2,500 test rows, and the mean probability of the rare class as a
multiple of its rate. Probabilities have the temperature of the validation rows.
"""

import argparse
import math
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from bench.accuracy.default_job import write_table
from bench.accuracy.few_rows import draw_clusters, draw_rules
from bench.accuracy.table_sets import Rows
from bench.training.job_loop import JobLoop, write_job
from worker.export.scoring.temperature import find_temperature
from worker.trainer.tables.batches import ResidentRows

NUM_TEST = 2500
EPOCHS, PATIENCE, LAST_RECORDED = 40, 16, 33
STEPS = (150, 200, 250, 300, 350, 420)
Drawn = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]
Outputs = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Training:
    """What one training recorded.

    Attributes:
        steps_per_epoch: Steps of an epoch.
        losses: `val/loss` after each epoch.
        outputs: Logits for the validation and the test rows after each epoch.
        labels: Labels of these rows.
    """

    steps_per_epoch: int
    losses: list[float]
    outputs: list[Outputs]
    labels: dict[str, NDArray[np.int64]]

    def at_step(self, step: int) -> int:
        """Return the epoch that has this step, counted from 0, or the 30th if that is earlier."""
        return min(30, math.ceil(step / self.steps_per_epoch)) - 1

    def find_best(self, first: int) -> int:
        """Return the epoch with the smallest loss from one on, with early stopping."""
        best = first
        for epoch in range(first, len(self.losses)):
            if self.losses[epoch] < self.losses[best]:
                best = epoch
            if epoch - best >= PATIENCE:
                break
        return best


Rule = Callable[[Training], int]


def list_rules() -> dict[str, Rule]:
    """Return what chooses the epoch, by its name."""
    rules: dict[str, Rule] = {
        "all epochs": lambda t: t.find_best(0),
        "from epoch 30": lambda t: t.find_best(29),
    }
    rules |= {f"from step {s}": lambda t, s=s: t.find_best(t.at_step(s)) for s in STEPS}
    return rules | {f"at step {s}": lambda t, s=s: t.at_step(s) for s in STEPS[1:]}


def main(arguments: list[str]) -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy rare-epochs")
    parser.add_argument("--rows", type=int, action="append", help="training rows; repeatable")
    parser.add_argument("--share", type=float, action="append", help="share of the rarer class")
    parser.add_argument("--seed", type=int, action="append")
    parser.add_argument("--data", action="append", choices=list(DRAWS))
    chosen = parser.parse_args(arguments)
    trainings = [
        _record(_draw(name, rows, share=share, seed=seed))
        for rows in chosen.rows or (1000, 2000)
        for share in chosen.share or (0.027,)
        for seed in chosen.seed or (10, 11, 12)
        for name in chosen.data or DRAWS
    ]
    print("| rule | log loss | AUC | average precision | mean / rate |\n| -- | -- | -- | -- | -- |")
    for name, rule in list_rules().items():
        scores = np.array([_score(training, rule(training)) for training in trainings])
        loss, auc, precision, ratio = scores.mean(axis=0)
        print(f"| {name} | {loss:.4f} | {auc:.4f} | {precision:.4f} | {np.exp(ratio):.2f} |")


def _record(table: Rows) -> Training:
    with tempfile.TemporaryDirectory(prefix="bench-rare-") as folder:
        dataset = write_table(table, Path(folder) / "table.parquet")
        training = {"epochs": EPOCHS, "early_stopping": {"patience": EPOCHS}}
        spec = {"task": "tabular-classification", "dataset": "bench", "training": training}
        with closing(JobLoop(write_job(Path(folder), spec, dataset))) as job:
            return _train(job)


def _train(job: JobLoop) -> Training:
    setup, rows = job.setup, job.setup.batches._rows
    evaluate, losses, outputs = setup.evaluate, list[float](), list[Outputs]()

    def record(*, should_stop: Callable[[], bool]) -> dict[str, float] | None:
        metrics = evaluate(should_stop=should_stop)
        losses.append(metrics["val/loss"])
        outputs.append({split: _predict(setup.model, rows, split) for split in labels})
        return metrics

    labels = {split: rows.targets(split).numpy() for split in ("validation", "test")}
    object.__setattr__(setup, "evaluate", record)
    job.loop.advance(LAST_RECORDED * setup.plan.steps_per_epoch)
    return Training(setup.plan.steps_per_epoch, losses, outputs, labels)


def _predict(model: torch.nn.Module, rows: ResidentRows, split: Any) -> NDArray[np.float32]:
    model.eval()
    with torch.no_grad():
        found = [model(*inputs) for inputs, _ in rows.batches(split, batch_size=256)]
    model.train()
    return torch.cat(found).numpy()


def _score(training: Training, epoch: int) -> tuple[float, float, float, float]:
    """Return log loss, AUC, average precision, and log of the mean probability per rate."""
    outputs, labels = training.outputs[epoch], training.labels
    known = (torch.from_numpy(outputs["validation"]), torch.from_numpy(labels["validation"]))
    scaled = outputs["test"].astype(np.float64) / find_temperature(*known)
    shares, targets = softmax(scaled, axis=1)[:, 1], labels["test"]
    return (
        float(log_loss(targets, shares)),
        float(roc_auc_score(targets, shares)),
        float(average_precision_score(targets, shares)),
        float(np.log(shares.mean() / targets.mean())),
    )


def _draw(name: str, num_rows: int, *, share: float, seed: int) -> Rows:
    num = num_rows + NUM_TEST
    numbers, codes, targets = DRAWS[name](seed * 7919 + num_rows, num, share)
    train, test = train_test_split(
        np.arange(num), train_size=num_rows, stratify=targets, random_state=seed
    )
    order = np.concatenate([train, test])
    return Rows(numbers[order], codes[order], targets[order], num_rows)


def _draw_linear(seed: int, num: int, share: float) -> Drawn:
    """Draw a class that follows a sum of 10 numbers, some of them skewed, and a category."""
    rng = np.random.default_rng(seed)
    numbers, codes = rng.normal(size=(num, 10)), rng.integers(0, 6, (num, 2))
    score = numbers @ (0.6 * rng.normal(size=10)) + 0.6 * rng.normal(size=6)[codes[:, 0]]
    score += 0.8 * rng.logistic(size=num)
    numbers = np.where(rng.random(10) < 0.3, np.exp(numbers), numbers)
    return numbers, codes, _take_top(score, share)


def _draw_weak(seed: int, num: int, share: float) -> Drawn:
    """Draw a class that follows 5 of 14 numbers and one of 3 categories, with much noise."""
    rng = np.random.default_rng(seed)
    x, codes = rng.normal(size=(num, 14)), rng.integers(0, 5, (num, 3))
    score = 0.7 * x[:, 0] + 0.5 * x[:, 1] - 0.4 * x[:, 2] + 0.4 * (codes[:, 0] == 1)
    score += 0.5 * np.maximum(x[:, 3], 0) * (x[:, 4] > 0) + rng.logistic(size=num)
    return x, codes, _take_top(score, share)


def _take_top(score: NDArray[np.float64], share: float) -> NDArray[np.int64]:
    return (score > np.quantile(score, 1 - share)).astype(np.int64)


DRAWS: dict[str, Callable[[int, int, float], Drawn]] = {
    "linear": _draw_linear,
    "weak": _draw_weak,
    "rules": draw_rules,
    "clusters": draw_clusters,
}
