"""The example task `line-fit`: the smallest task that trains, exports, and verifies a model.

A real task opens `order.required_dataset`; this one makes its points up.
Shapes: B batch, N points.
"""

import copy
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from redkiln.spec.job_spec import JobSpec
from redkiln.tasks import line_fit
from worker.export.exportable import Exportable
from worker.export.scoring.regression import Regression
from worker.export.target import Arrays, CardTexts, ExportTarget, Split
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.trainer.devices import autocast_of
from worker.trainer.inputs import Batch
from worker.trainer.insight.pace import Pace
from worker.trainer.plan import plan_training
from worker.trainer.ranks.distributed import ALONE
from worker.trainer.scoring.evaluate import evaluate_regressor
from worker.trainer.scoring.validation import build_evaluation
from worker.trainer.setup import TrainingSetup

ROWS: dict[Split, NDArray[np.int64]] = {
    "train": np.arange(160),
    "validation": np.arange(160, 200),
    "test": np.arange(200, 240),
}


class Points:
    """Made-up points near the line y = 2 x + 1, whose x are (N, 1) and whose y are (N,) float32."""

    def __init__(self, *, batch_size: int = 1, device: str | torch.device = "cpu") -> None:
        generator = torch.Generator().manual_seed(0)
        x, noise = torch.randn(2, 240, generator=generator)
        self.x, self.y = x[:, None].to(device), (2 * x + 1 + noise / 10).to(device)
        self.pace, self.ranks, self._batch_size = Pace(), ALONE, batch_size

    def get(self, epoch: int, place: int) -> Batch:
        """Return a training batch: x (B, 1) and y (B,)."""
        first = place * self._batch_size
        rows = slice(*self.ranks.share(first, first + self._batch_size))
        return self.x[rows], self.y[rows]

    def num(self, split: Split) -> int:
        """Return the number of points of a split."""
        return len(ROWS[split])

    def batches(self, split: Split, *, batch_size: int) -> Iterator[Batch]:
        """Yield a split in batches, to score it."""
        for rows in torch.from_numpy(ROWS[split]).split(batch_size):
            yield self.x[rows], self.y[rows]


class Samples:
    """The points as arrays, for the comparison of ONNX Runtime with torch."""

    noun = "points"

    def get(self, rows: NDArray[np.int64]) -> Arrays:
        """Return the points as they are saved in `parity.npz`."""
        return {"x": Points().x.numpy()[rows]}

    def feed(self, raw: Arrays) -> Arrays:
        """Return the model's inputs."""
        return raw


class Line(nn.Module):
    """The line: maps x (B, 1) to y (B,)."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute y."""
        return self.line(x).squeeze(1)


def prepare(
    order: Order, spec: JobSpec, *, device: torch.device, event_log: EventLog, reading: Any = None
) -> TrainingSetup:
    """Make the points and the model, and set every option that is `auto`."""
    assert isinstance(spec, line_fit.LineFitSpec)
    resolved = spec.model_copy(deep=True)
    training = resolved.training
    training.batch_size = 16 if training.batch_size == "auto" else training.batch_size
    training.precision, training.compile = "fp32", "off"
    training.schedule.warmup_fraction = 0.0
    torch.manual_seed(training.seed)
    points, model = Points(batch_size=training.batch_size, device=device), Line().to(device)
    return TrainingSetup(
        spec=resolved,
        plan=plan_training(training, num_train=points.num("train")),
        model=model,
        batches=points,
        loss=functional.mse_loss,
        evaluate=build_evaluation(
            model,
            points,
            partial(evaluate_regressor, loss=functional.mse_loss, restore=lambda y: y),
            batch_size=len(points.y),
            autocast=partial(autocast_of, device, "fp32"),
            names=training.metrics,
        ),
        is_better=lambda metrics, best: metrics["val/rmse"] < best["val/rmse"],
        make_exportable=lambda: make_exportable(model),
        counts={split: points.num(split) for split in ROWS},
    )


def open_target(
    order: Order,
    spec: JobSpec,
    *,
    weights: Mapping[str, torch.Tensor],
    event_log: EventLog,
    reading: Any = None,
) -> ExportTarget:
    """Return the trained line with the points that it is scored on."""
    assert isinstance(spec, line_fit.LineFitSpec)
    model = Line()
    model.load_state_dict(weights)
    targets = Points().y.numpy()
    return ExportTarget(
        spec=spec,
        exportable=make_exportable(model),
        samples=Samples(),
        targets=targets,
        rows=ROWS,
        scoring=Regression("y", mean=float(targets.mean()), std=float(targets.std())),
        preprocessing={},
        texts=CardTexts(does="predicts y from x", usage="Input `x`, output `y`.", preprocessing=""),
        notes=[],
        held_out_test=False,
    )


def make_exportable(model: Line) -> Exportable:
    """Copy the model to the CPU, with inputs to trace it with."""
    return Exportable(
        copy.deepcopy(model).to("cpu").eval().requires_grad_(False),
        examples={"x": torch.randn(2, 1)},
        others={"x": torch.randn(5, 1)},
        output="y",
        architecture={"task": "line-fit"},
    )
