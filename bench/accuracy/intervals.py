"""Intervals of regression metrics from few test rows: do they hold the true value?

`python -m bench.accuracy intervals [--rows N] [--draws N]` draws test rows with errors of known
distributions, and prints in which share of the draws the 95 % interval of a report, and a
percentile bootstrap, hold the value that the metric has on all rows. In brackets is the median
width as the ratio of the ends, for R2 of the unexplained shares.
"""

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from redkiln.views.comparison import Interval
from worker.export.scoring.intervals import bootstrap
from worker.export.scoring.regression import METRICS, Regression

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]
MANY = 4_000_000
"""Rows from which the true value is computed."""
SIGNAL = 1.5
"""Standard deviation of the predictions, in those of the errors."""


def main(arguments: list[str]) -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy intervals")
    parser.add_argument("--rows", type=int, action="append", help="test rows; repeatable")
    parser.add_argument("--draws", type=int, default=400)
    chosen = parser.parse_args(arguments)
    print(f"| errors | rows | {' | '.join(f'{name}, percentile | report' for name in METRICS)} |")
    print(f"| -- | -- |{' -- |' * (2 * len(METRICS))}")
    for name, draw in ERRORS.items():
        true = _find_true(draw)
        for rows in chosen.rows or (10, 20, 40, 80, 300):
            cells = _measure(draw, true, rows=rows, draws=chosen.draws)
            print(f"| {name} | {rows} | {' | '.join(cells)} |", flush=True)


def _mix(rng: np.random.Generator, num: int) -> NDArray[np.float64]:
    """Draw normal errors of which a tenth is four times as large."""
    errors: NDArray[np.float64] = rng.normal(size=num) * np.where(rng.random(num) < 0.1, 4, 1)
    return errors


ERRORS: dict[str, Draw] = {
    "normal": lambda rng, num: rng.normal(size=num),
    "Laplace": lambda rng, num: rng.laplace(size=num),
    "Student, 5 degrees": lambda rng, num: rng.standard_t(5, size=num),
    "Student, 3 degrees": lambda rng, num: rng.standard_t(3, size=num),
    "log-normal": lambda rng, num: rng.lognormal(0, 0.75, num) - np.exp(0.75**2 / 2),
    "a tenth 4 times as large": _mix,
}


def _find_true(draw: Draw) -> dict[str, float]:
    errors = draw(np.random.default_rng(0), MANY)
    square = float(np.square(errors).mean())
    return {"rmse": square**0.5, "mae": float(np.abs(errors).mean()), "r2": 1 - 1 / (1 + SIGNAL**2)}


def _measure(draw: Draw, true: dict[str, float], *, rows: int, draws: int) -> list[str]:
    rng = np.random.default_rng(rows)
    found: dict[tuple[str, str], list[Interval | None]] = {}
    for _ in range(draws):
        errors = draw(rng, rows)
        outputs = (SIGNAL * true["rmse"] * rng.normal(size=rows)).astype(np.float32)
        targets = outputs + errors
        ours = Regression("y", mean=0.0, std=1.0).find_intervals(outputs, targets)
        for name, metric in METRICS.items():
            by_resamples = bootstrap(partial(metric, outputs, targets), rows)
            found.setdefault((name, "percentile"), []).append(by_resamples)
            found.setdefault((name, "report"), []).append(ours.get(name))
    return [_describe(name, some, true[name]) for (name, _), some in found.items()]


def _describe(name: str, found: list[Interval | None], true: float) -> str:
    known = [one for one in found if one is not None]
    held = np.mean([low <= true <= high for low, high in known])
    ends = [(1 - high, 1 - low) if name == "r2" else (low, high) for low, high in known]
    return f"{held:.1%} ({np.median([high / low for low, high in ends]):.2f})"
