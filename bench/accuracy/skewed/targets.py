"""Targets with a long tail: does a job choose well between the target and its logarithm?

`python -m bench.accuracy skewed-targets [--set NAME] [--seeds N] [--first-seed N]` trains default
jobs (tabm) on the target itself and on its logarithm. It prints, as geometric means over the seeds,
RMSE and MAE on other rows and how the logarithm changes them, the same for ridge regression and for
HistGradientBoosting, how often `auto` chose the logarithm, and how that changed the RMSE of tabm.
"""

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import TransformedTargetRegressor

from bench.accuracy.competitors import encode, list_competitors
from bench.accuracy.default_job import open_best, train_job, write_table
from bench.accuracy.skewed.sets import SETS
from bench.accuracy.table_sets import Rows
from bench.training.job_loop import write_job

LIBRARIES = {"ridge": "linear", "HGB": "HistGradientBoosting"}
NO_LOG = "-"


def main(arguments: list[str]) -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy skewed-targets")
    parser.add_argument("--set", action="append", choices=[one.name for one in SETS])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    models = ["tabm", *LIBRARIES]
    heads = [f"{model}, {way}" for model in models for way in ("RMSE", "MAE")]
    print(f"| data | kind | {' | '.join(heads)} | auto |\n{'| -- ' * (3 + len(heads))}|")
    for one in SETS:
        if chosen.set and one.name not in chosen.set:
            continue
        tables = [one.split(chosen.first_seed + place) for place in range(chosen.seeds)]
        tabm, choices = zip(*map(_train_both, tables), strict=True)
        found = [list(tabm), *([_fit_both(name, t) for t in tables] for name in LIBRARIES.values())]
        cells = [_show(errors, place) for errors in found for place in (0, 1)]
        auto = f"{sum(choices)} of {len(choices)}, {_show_auto(tabm, choices)}"
        print(f"| {one.name} | {one.kind} | {' | '.join(cells)} | {auto} |", flush=True)


Errors = tuple[float, float]
"""RMSE and MAE on the test rows."""
Both = tuple[Errors, Errors | None]
"""Errors of a model of the target itself, and of its logarithm if it has one."""


def _train_both(rows: Rows) -> tuple[Both, bool]:
    """Train the default job and the other way; return errors, and whether the job chose the log."""
    choice, errors = _train(rows, "auto")
    if rows.targets.min() <= 0:
        return (errors, None), choice == "log"
    if choice == "log":
        return (_train(rows, "none")[1], errors), True
    return (errors, _train(rows, "log")[1]), False


def _train(rows: Rows, transform: str) -> tuple[str, Errors]:
    with tempfile.TemporaryDirectory(prefix="bench-skewed-") as folder:
        root = Path(folder)
        dataset = write_table(rows, root / "table.parquet")
        spec: dict[str, Any] = {"task": "tabular-regression", "dataset": "bench"}
        spec["training"] = {"target_transform": transform}
        job_dir = write_job(root, spec, dataset)
        resolved: Any = train_job(job_dir)
        target = open_best(job_dir, resolved)
        test = target.samples.get(target.rows["test"])
        outputs = target.exportable.predict(target.samples.feed(test))
    return resolved.training.target_transform, _measure(rows, outputs)


def _fit_both(name: str, rows: Rows) -> Both:
    build = partial(list_competitors()[name], True)
    plain = _fit(build, rows)
    if rows.targets.min() <= 0:
        return plain, None
    exp = partial(_exp_below, 80.0)
    logs = TransformedTargetRegressor(build(), func=np.log, inverse_func=exp, check_inverse=False)
    return plain, _fit(lambda: logs, rows)


def _fit(build: Callable[[], Any], rows: Rows) -> Errors:
    inputs, num = encode(rows), rows.num_train
    model = build().fit(inputs[:num], rows.targets[:num])
    return _measure(rows, model.predict(inputs[num:]))


def _exp_below(most: float, logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return exponentials whose squares are finite."""
    return np.exp(np.minimum(logs, most))


def _measure(rows: Rows, outputs: NDArray[Any]) -> Errors:
    errors = outputs - rows.targets[rows.num_train :]
    return float(np.sqrt(np.square(errors).mean())), float(np.abs(errors).mean())


def _show(found: list[Both], place: int) -> str:
    """Return the error of the target itself, and the change by the logarithm."""
    plain = np.exp(np.mean([np.log(errors[place]) for errors, _ in found]))
    changes = [np.log(logs[place] / errors[place]) for errors, logs in found if logs is not None]
    if not changes:
        return f"{plain:.4g}, {NO_LOG}"
    return f"{plain:.4g}, {np.expm1(np.mean(changes)):+.1%}"


def _show_auto(found: list[Both], choices: list[bool]) -> str:
    """Return the change of the RMSE by `auto`, next to the target itself in every job."""
    changes = [
        np.log(logs[0] / errors[0]) if is_log and logs is not None else 0.0
        for (errors, logs), is_log in zip(found, choices, strict=True)
    ]
    return f"{np.expm1(np.mean(changes)):+.1%}"
