"""Jobs on small tables and rare classes: does what they choose on few validation rows help?

`python -m bench.accuracy few-rows [--rows N] [--ratio N] [--seeds N] [--job NAME]` draws tables of
two classes, trains the jobs of JOBS on them, and prints the means over the seeds of log loss, macro
F1, macro F1 at the chosen threshold, and AUC on 3,000 other rows.
"""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from bench.accuracy.competitors import Score, score_competitor
from bench.accuracy.default_job import score_job
from bench.accuracy.table_sets import Rows

NUM_TEST = 3000
BOOSTING, TABM = "gradient-boosting", "tabm"
JOBS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "gradient-boosting": (BOOSTING, {}),
    # Early stopping that the user chose keeps the validation split.
    "gradient-boosting, stopped on validation": (BOOSTING, {"early_stopping": 21}),
    "gradient-boosting, class_weights": (BOOSTING, {"class_weights": "balanced"}),
    "tabm": (TABM, {}),
    # Early stopping that the user chose makes every epoch a candidate.
    "tabm, best of all epochs": (TABM, {"early_stopping": 17}),
    "tabm, 5 folds": (TABM, {"folds": 5}),
    "tabm, class_weights": (TABM, {"class_weights": "balanced"}),
}
LIBRARY = "HistGradientBoosting"
SETS = ("clusters", "rules")
READ: dict[str, Callable[[Score], float | None]] = {
    "log loss": lambda score: score.log_loss,
    "macro F1": lambda score: score.f1,
    "at the threshold": lambda score: score.f1_at_threshold,
    "AUC": lambda score: score.main,
}


def main(arguments: list[str]) -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy few-rows")
    parser.add_argument("--rows", type=int, action="append", help="training rows; repeatable")
    parser.add_argument("--ratio", type=int, action="append", help="rows of the larger class")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--job", action="append", choices=[*JOBS, LIBRARY])
    chosen = parser.parse_args(arguments)
    jobs = chosen.job or [*JOBS, LIBRARY]
    print(f"| rows | ratio | data | job | {' | '.join(READ)} |\n{'| -- ' * (4 + len(READ))}|")
    for num_rows in chosen.rows or (200, 500, 1000, 3000):
        for ratio in chosen.ratio or (1, 4, 30):
            for name in SETS:
                tables = [draw(name, num_rows, ratio=ratio, seed=s) for s in range(chosen.seeds)]
                for job in jobs:
                    found = [_score(job, table) for table in tables]
                    head = f"| {num_rows} | {ratio}:1 | {name} | {job} "
                    print(f"{head}| {' | '.join(_average(found))} |", flush=True)


def draw(name: str, num_rows: int, *, ratio: int, seed: int) -> Rows:
    """Draw a table of two classes, `ratio` rows of the first for each of the second."""
    num, share = num_rows + NUM_TEST, 1 / (ratio + 1)
    numbers, codes, targets = (draw_clusters if name == "clusters" else draw_rules)(
        seed, num, share
    )
    train, test = train_test_split(
        np.arange(num), train_size=num_rows, stratify=targets, random_state=seed
    )
    order = np.concatenate([train, test])
    return Rows(numbers[order], codes[order], targets[order], num_rows)


def _score(job: str, table: Rows) -> Score:
    if job == LIBRARY:
        return score_competitor(lambda _: HistGradientBoostingClassifier(random_state=0), table)
    model, training = JOBS[job]
    return score_job(table, model=model, training=training)


def _average(found: list[Score]) -> list[str]:
    values = [[read(score) for score in found] for read in READ.values()]
    return ["-" if None in some else f"{np.mean(np.array(some, float)):.4f}" for some in values]


def draw_clusters(
    seed: int, num: int, share: float
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Draw Gaussian clusters of both classes, in 5 of 12 columns."""
    numbers, targets = make_classification(
        num,
        n_features=12,
        n_informative=5,
        n_clusters_per_class=2,
        weights=[1 - share],
        flip_y=0.01,
        random_state=seed,
    )
    return numbers, np.zeros((num, 0), np.int64), targets.astype(np.int64)


def draw_rules(
    seed: int, num: int, share: float
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Draw numbers with gaps and two categories, and a class that follows a few noisy rules."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(num, 8))
    codes = np.stack([rng.integers(0, 5, num), rng.integers(0, 12, num)], axis=1)
    score = 1.2 * numbers[:, 0] + numbers[:, 1] * (codes[:, 0] == 2) + 1.5 * (numbers[:, 2] > 1)
    score += numbers[:, 3] * numbers[:, 4] + 0.5 * rng.normal(size=12)[codes[:, 1]]
    score += 0.6 * rng.logistic(size=num)
    targets = (score > np.quantile(score, 1 - share)).astype(np.int64)
    numbers[rng.random(numbers.shape) < 0.05] = np.nan
    return numbers, codes, targets
