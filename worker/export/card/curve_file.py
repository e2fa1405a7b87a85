"""`metrics.csv`: every metric of the run, one row per step."""

import csv
from pathlib import Path

from redkiln.spec.job_spec import Training
from redkiln.spec.schedule import learning_rate
from worker.checkpoints.history import History


def write_metrics(
    history: History, path: Path, *, training: Training | None, steps: int, steps_per_epoch: int
) -> None:
    """Write `step, epoch, lr` and one column per metric; a cell is empty if a step has no value.

    The column `lr` is empty if no network was trained.
    """
    names = sorted(history.series)
    losses = history.series.get("val/loss", [])
    rows: dict[int, dict[str, float]] = {}
    for name in names:
        for step, value in history.series[name]:
            rows.setdefault(step, {})[name] = value
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["step", "epoch", "lr", *names])
        for step, values in sorted(rows.items()):
            # The learning rate of this step, counted from 1.
            rate = training and learning_rate(
                training.schedule,
                start=training.optimizer.lr,
                step=step - 1,
                steps=steps,
                steps_per_epoch=steps_per_epoch,
                losses=losses,
            )
            cells = [values.get(name, "") for name in names]
            writer.writerow([step, round(step / steps_per_epoch, 4), rate, *cells])
