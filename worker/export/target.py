"""What a task gives to the export: the model, samples to hold it against, and words about it.

This and `worker.trainer.setup` are the two sides of a task. The export child knows no task: it
writes the ONNX, runs both runtimes on real samples, and has the scoring judge and draw the result.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.spec.job_spec import JobSpec, TrainingSpec
from worker.export.exportable import Exportable
from worker.jobdir import Order
from worker.process.event_log import EventLog

Arrays = dict[str, NDArray[Any]]
"""Arrays by name, each with the sample as its first dimension."""
Outputs = NDArray[np.float32]
"""(N, ...), what a model gives for N samples."""
Split = Literal["train", "validation", "test"]


class Samples(Protocol):
    """The samples of a data set as arrays.

    Attributes:
        noun: what one is called, in the plural: `images`.
    """

    noun: str

    def get(self, rows: NDArray[np.int64]) -> Arrays:
        """Some samples as they are saved in `parity.npz`."""

    def feed(self, raw: Arrays) -> Arrays:
        """The same samples as the model's inputs, by the inputs' names."""


@dataclass(frozen=True)
class CurveStyle:
    """How the metric beside the loss is drawn.

    Attributes:
        name: of its series in the history.
        title: above its curve.
        is_share: between 0 and 1, written in per cent.
    """

    name: str
    title: str
    is_share: bool


class Scoring(Protocol):
    """What outputs are worth, and how that is told.

    Attributes:
        headline: the metric that the gate looks at.
        targets_name: of the targets in `parity.npz`.
        curve: the metric beside the loss.
        figure: file name of the picture that `draw` makes.
    """

    headline: str
    targets_name: str
    curve: CurveStyle
    figure: str

    def score(self, outputs: Outputs, targets: NDArray[Any]) -> dict[str, float]:
        """Metrics by name, the headline among them."""

    def find_drop(self, value: float, onnx: float) -> float:
        """How much worse the headline is under ONNX Runtime, as the gate counts it.

        Args:
            value: under torch.
            onnx: under ONNX Runtime.
        """

    def explain_drop(self, drop: float) -> str:
        """The same in words, as in `the metric is 0.0060 lower`."""

    def find_agreement(self, onnx: Outputs, reference: Outputs) -> float | None:
        """Share of samples about which both runtimes say the same; None where that says nothing."""

    def describe(self) -> dict[str, Any]:
        """What a user of the model has to know of its output, as JSON; into ONNX and manifest."""

    def draw(self, outputs: Outputs, targets: NDArray[Any], path: Any, *, title: str) -> None:
        """A picture of the test split: what is true against what the model says."""

    def tell_headline(self, metrics: Mapping[str, float]) -> str:
        """The headline for people, as in `Test accuracy **98.1%**`; metrics as `test/...`."""

    def tell_results(self, outputs: Outputs, targets: NDArray[Any], *, noun: str) -> str:
        """What follows the table of metrics in the card, Markdown."""

    def tell_output(self) -> str:
        """Lines of the card's data section, Markdown: the classes, or the target."""

    def tell_drop(self) -> str:
        """Label of the drop in the card's table of the gate."""


@dataclass(frozen=True)
class CardTexts:
    """What only the task can say in the card, Markdown.

    Attributes:
        does: of the model, as in `sorts grey images of 8x8 pixels into 3 classes`.
        usage: how to run it: what it takes and gives, and code that runs as it stands.
        preprocessing: a line about it, for the data section.
        training: lines about what this task's training has beside the common settings.
    """

    does: str
    usage: str
    preprocessing: str
    training: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ExportTarget:
    """A trained model, ready to be exported and judged.

    Attributes:
        spec: with nothing left at `auto`.
        targets: (N,) of every sample.
        rows: of each split.
        preprocessing: how a sample becomes the model's inputs, as JSON.
        notes: what the data set's validation had to say.
        held_out_test: whether the test split was cut from the training samples.
        files: further artifacts by name (`worker.export.outputs.KINDS`), a tokenizer say.
        reading: as `worker.trainer.setup.Work` has it; goes with the weights.
    """

    spec: TrainingSpec
    exportable: Exportable
    samples: Samples
    targets: NDArray[Any]
    rows: Mapping[Split, NDArray[np.int64]]
    scoring: Scoring
    preprocessing: dict[str, Any]
    texts: CardTexts
    notes: list[str]
    held_out_test: bool
    files: Mapping[str, bytes] = field(default_factory=dict)
    reading: str | None = None


class OpenTarget(Protocol):
    """Builds the model with its best weights, and opens the samples that it is judged on."""

    def __call__(
        self,
        order: Order,
        spec: JobSpec,
        *,
        weights: Mapping[str, torch.Tensor],
        event_log: EventLog,
        reading: str | None = None,
    ) -> ExportTarget:
        """Open what a job has trained.

        Args:
            order: The job's order.
            spec: The resolved spec.
            weights: Weights of the best checkpoint, by their names in the network's state dict.
            event_log: The export's log.
            reading: `Work.reading` of the best checkpoint.
        """


class ExportedTask(Protocol):
    """What the export uses of a task."""

    open_target: OpenTarget


LoadTask = Callable[[str], ExportedTask]
"""Finds a task by the name that a spec gives it."""
