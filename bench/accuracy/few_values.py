"""Gradient boosting for values on small tables: do folds choose the number of iterations better?

`python -m bench.accuracy few-values [--rows N] [--seeds N] [--job NAME]` draws tables, trains the
jobs of JOBS on them, and prints the means over the seeds of the RMSE on other rows and of the CPU
seconds of the training.
"""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor

from bench.accuracy.competitors import Score, score_competitor
from bench.accuracy.default_job import score_job
from bench.accuracy.table_sets import Rows, make_mixed

NUM_TEST = 1500
JOBS: dict[str, Mapping[str, Any]] = {
    "gradient-boosting": {},
    # Early stopping that the user chose keeps the validation split.
    "stopped on validation": {"early_stopping": 21},
}
LIBRARY = "HistGradientBoosting"


def main(arguments: list[str]) -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy few-values")
    parser.add_argument("--rows", type=int, action="append", help="training rows; repeatable")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--job", action="append", choices=[*JOBS, LIBRARY])
    chosen = parser.parse_args(arguments)
    jobs = chosen.job or [*JOBS, LIBRARY]
    print(f"| rows | data | {' | '.join(f'{job} | CPU s' for job in jobs)} |")
    print(f"| -- | -- |{' -- |' * (2 * len(jobs))}", flush=True)
    for num_rows in chosen.rows or (100, 200, 500, 1000):
        for name, draw in SETS.items():
            tables = [draw(num_rows, seed) for seed in range(chosen.seeds)]
            found = [[_score(job, table) for table in tables] for job in jobs]
            print(f"| {num_rows} | {name} | {' | '.join(map(_average, found))} |", flush=True)


def _score(job: str, table: Rows) -> Score:
    if job == LIBRARY:
        return score_competitor(lambda _: HistGradientBoostingRegressor(random_state=0), table)
    return score_job(table, model="gradient-boosting", training=JOBS[job])


def _average(found: list[Score]) -> str:
    rmse = np.mean([score.main for score in found])
    return f"{rmse:.4f} | {np.mean([score.seconds for score in found]):.1f}"


def _draw_friedman(num_rows: int, seed: int) -> Rows:
    """Draw smooth interactions of 5 of 10 numbers."""
    numbers, targets = make_friedman1(num_rows + NUM_TEST, noise=1, random_state=seed)
    return Rows(numbers, _no_codes(numbers), targets, num_rows)


def _draw_mixed(num_rows: int, seed: int) -> Rows:
    """Draw numbers with gaps and long tails, categories, and steps in the target."""
    numbers, codes, targets = make_mixed(seed, is_regression=True)
    some = slice(num_rows + NUM_TEST)
    return Rows(numbers[some], codes[some], targets[some], num_rows)


def _draw_noisy(num_rows: int, seed: int) -> Rows:
    """Draw a weak linear signal with long-tailed errors, of which few iterations learn most."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(num_rows + NUM_TEST, 8))
    targets = numbers[:, :3].sum(axis=1) / 2 + rng.standard_t(3, len(numbers))
    return Rows(numbers, _no_codes(numbers), targets, num_rows)


def _draw_products(num_rows: int, seed: int) -> Rows:
    """Draw products of numbers, which need many iterations."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(num_rows + NUM_TEST, 6))
    targets = numbers[:, 0] * numbers[:, 1] + np.sign(numbers[:, 2]) * numbers[:, 3]
    targets = targets + 0.1 * rng.normal(size=len(numbers))
    return Rows(numbers, _no_codes(numbers), targets, num_rows)


def _no_codes(numbers: np.ndarray) -> np.ndarray:
    return np.zeros((len(numbers), 0), np.int64)


SETS: dict[str, Callable[[int, int], Rows]] = {
    "friedman": _draw_friedman,
    "mixed": _draw_mixed,
    "noisy": _draw_noisy,
    "products": _draw_products,
}
