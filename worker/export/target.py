"""What a task passes to the export: the model, samples to compare on, and texts about it.

This and `worker.trainer.setup` are the two interfaces of a task. The export child does not know the
task: it writes the ONNX file, runs both runtimes on real samples, and lets the scoring judge and
draw the result.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.spec.job_spec import JobSpec, TrainingSpec
from redkiln.views.comparison import Interval, Judgement, ThresholdChoice
from worker.export.baselines.baseline import Baseline
from worker.export.exportable import Converted, Exportable
from worker.export.outputs import Outputs as JobFiles
from worker.jobdir import Order
from worker.process.event_log import EventLog

Arrays = dict[str, NDArray[Any]]
"""Arrays by name, each with the sample as its first dimension."""
Outputs = NDArray[np.float32]
"""(N, ...), a model's outputs for N samples."""
Scored = tuple[Outputs, NDArray[Any]]
"""Outputs and targets of the same samples."""
ReadSplit = Callable[[], Scored]
Split = Literal["train", "validation", "test"]


class Samples(Protocol):
    """The samples of a data set as arrays.

    Attributes:
        noun: Plural name of the samples, such as `images`.
    """

    noun: str

    def get(self, rows: NDArray[np.int64]) -> Arrays:
        """Return some samples as they are saved in `parity.npz`."""

    def feed(self, raw: Arrays) -> Arrays:
        """Return the same samples as the model's inputs, by name."""


@dataclass(frozen=True)
class CurveStyle:
    """How the metric next to the loss is drawn.

    Attributes:
        name: Name of its series in the history.
        title: Title of its curve.
        is_share: Whether it is between 0 and 1 and shown in per cent.
    """

    name: str
    title: str
    is_share: bool


class Scoring(Protocol):
    """Scores outputs and reports the result.

    Attributes:
        headline: Metric that the gate compares under ONNX Runtime.
        targets_name: Name of the targets in `parity.npz`.
        curve: The metric drawn next to the loss.
        figure: File name of the picture that `draw` writes.
        is_error: Whether a lower value of the headline, and of the compared metric, is better.
    """

    headline: str
    targets_name: str
    curve: CurveStyle
    figure: str
    is_error: bool

    def score(self, outputs: Outputs, targets: NDArray[Any]) -> dict[str, float]:
        """Return metrics by name, including the headline."""

    def find_intervals(self, outputs: Outputs, targets: NDArray[Any]) -> dict[str, Interval]:
        """Return 95 % confidence intervals by metric; one that would take long may be missing."""

    def choose_compared(self, targets: NDArray[Any]) -> str:
        """Return the metric to judge the model by: for headline, folds and baselines.

        Args:
            targets: Targets of the training split.
        """

    def answer_constantly(self, targets: NDArray[Any], num: int) -> tuple[str, Outputs]:
        """Return the best constant answer: its name, and outputs for `num` samples.

        Args:
            targets: Targets of the training split.
            num: Number of samples.
        """

    def compare_pair(
        self, metric: str, ours: Outputs, theirs: Outputs, targets: NDArray[Any]
    ) -> Judgement | None:
        """Judge by a paired test which model is better; None if there is no such test.

        Args:
            metric: The metric that `choose_compared` chose.
            ours: (N, ...) outputs of our model.
            theirs: (N, ...) outputs of another model for the same samples.
            targets: (N, ...) targets of these samples.
        """

    def choose_threshold(self, read: ReadSplit) -> ThresholdChoice | None:
        """Choose a decision threshold; None if the task has none.

        Args:
            read: Returns outputs for samples that the model was not trained on, which takes time.
        """

    def find_drop(self, value: float, onnx: float) -> float:
        """Return how much worse the headline is under ONNX Runtime, as the gate measures it.

        Args:
            value: Headline of the trained model in its own library.
            onnx: Headline under ONNX Runtime.
        """

    def explain_drop(self, drop: float) -> str:
        """Describe the drop, as in `the metric is 0.0060 lower`."""

    def find_agreement(self, onnx: Outputs, reference: Outputs) -> float | None:
        """Return the share of samples with equal answers; None if that is not meaningful."""

    def describe(self) -> dict[str, Any]:
        """Return what users need to know of the output, as JSON, for ONNX file and manifest."""

    def draw(self, outputs: Outputs, targets: NDArray[Any], path: Any, *, title: str) -> None:
        """Draw predictions against the truth on the test split."""

    def describe_headline(self, metrics: Mapping[str, float], *, compared: str) -> str:
        """Return the headline, as in `Test accuracy **98.1%**`.

        Args:
            metrics: Metrics, named `test/...`.
            compared: Name of the one that `choose_compared` chose.
        """

    def describe_results(self, outputs: Outputs, targets: NDArray[Any], *, noun: str) -> str:
        """Return the text after the card's table of metrics, Markdown."""

    def describe_output(self) -> str:
        """Return the line about the classes or the target in the card's data section, Markdown."""

    def describe_drop(self) -> str:
        """Return the drop's label in the card's table of the gate."""


class Embedding(Protocol):
    """Puts the preparation of raw inputs into finished files."""

    def apply(self, path: Path) -> None:
        """Rewrite a file so that it prepares raw inputs itself."""

    def find_misses(self) -> list[str]:
        """Return where this preparation differs from the one for training, with numbers."""


class Companion(Protocol):
    """Writes a second file next to `model.onnx`, which takes raw inputs.

    Attributes:
        name: Its name among the variants; the file is `model-NAME.onnx`.
    """

    name: str

    def write(self, source: Path, path: Path) -> dict[str, Any]:
        """Write the file from `model.onnx`; return how it was made and what it needs.

        Raises:
            ValueError: It cannot be made for this model, or not on this machine.
        """

    def open_samples(self, rows: NDArray[np.int64]) -> Samples:
        """Return raw samples, of which these rows are read."""

    def find_misses(self, rows: NDArray[np.int64]) -> list[str]:
        """Return where its preparation differs from the one for training."""

    def save(self, rows: NDArray[np.int64]) -> Arrays:
        """Return raw samples as they are saved in `parity.npz`."""


@dataclass(frozen=True)
class CardTexts:
    """Texts that only the task can provide for the card, Markdown.

    Attributes:
        does: Purpose of the model, as in `sorts grey images of 8x8 pixels into 3 classes`.
        usage: How to run it: inputs, outputs, and code that runs unchanged.
        preprocessing: Description for the data section.
        training: Lines about this task's training in addition to the common settings.
        course: Lines that replace the common settings, for a model without batches and an
            optimiser.
        unit: Plural name of what `num_parameters` counts.
    """

    does: str
    usage: str
    preprocessing: str
    training: list[str] = field(default_factory=list)
    course: list[str] | None = None
    unit: str = "parameters"


@dataclass(frozen=True)
class ExportTarget:
    """A trained model, ready for export and scoring.

    Attributes:
        spec: Resolved spec, without `auto`.
        targets: (N,) targets of all samples.
        rows: Rows of each split.
        preprocessing: How a sample becomes the model's inputs, as JSON.
        notes: Notes from the data set's validation.
        held_out_test: Whether the test split was taken from the training samples.
        baselines: Models that cost little, which the trained one is compared with, in addition
            to the constant answer of its scoring.
        held_out: Outputs and targets of training rows by models that were trained without them,
            for a decision threshold where the validation split is empty.
        files: Further artifacts by name (`worker.export.outputs.KINDS`), such as a tokenizer.
        reading: `worker.trainer.setup.TrainingSetup.reading`, which belongs to the weights.
        describe_rows: Returns a short text for each of some samples, for people.
        read_pictures: Returns some samples as images (B, S, S, C) uint8; None if they are not.
        embedding: Makes the files prepare raw inputs themselves; None if they do not.
        companion: Writer of a second file, which takes raw inputs; None without one.
        write_evaluation: Writes the evaluation by class, for a model that is not a classifier.
    """

    spec: TrainingSpec
    exportable: Exportable | Converted
    samples: Samples
    targets: NDArray[Any]
    rows: Mapping[Split, NDArray[np.int64]]
    scoring: Scoring
    preprocessing: dict[str, Any]
    texts: CardTexts
    notes: list[str]
    held_out_test: bool
    baselines: Sequence[Baseline] = ()
    held_out: Scored | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    reading: str | None = None
    describe_rows: Callable[[NDArray[np.int64]], Sequence[str]] | None = None
    read_pictures: Callable[[NDArray[np.int64]], NDArray[np.uint8]] | None = None
    embedding: Embedding | None = None
    companion: Companion | None = None
    write_evaluation: "Callable[[ExportTarget, Scored, JobFiles], None] | None" = None


class OpenTarget(Protocol):
    """Builds the model with its best weights, and opens the samples that it is scored on."""

    def __call__(
        self,
        order: Order,
        spec: JobSpec,
        *,
        weights: Mapping[str, torch.Tensor],
        event_log: EventLog,
        reading: str | None = None,
    ) -> ExportTarget:
        """Open the trained model of a job.

        Args:
            order: The job's order.
            spec: The resolved spec.
            weights: Weights of the best checkpoint, by their names in the network's state dict.
            event_log: The export's log.
            reading: `TrainingSetup.reading` of the best checkpoint.
        """


class ExportedTask(Protocol):
    """The part of a task that the export uses."""

    open_target: OpenTarget


LoadTask = Callable[[str], ExportedTask]
"""Finds a task by its name in a spec."""
