"""What all steps of an export share: the trained model, its weights and its samples."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from redkiln.tasks import parse_spec
from redkiln.views.job import Progress
from redkiln.views.result import CopiesInTest
from worker.checkpoints.checkpoint import CheckpointStore
from worker.checkpoints.history import History
from worker.export.target import ExportTarget, LoadTask
from worker.jobdir import JobDir, Order
from worker.process.event_log import EventLog
from worker.results.trained import Trained


@dataclass(frozen=True)
class Context:
    """Inputs shared by all parts of an export.

    Attributes:
        history: History of the whole training; None if another job was trained.
        weights: Weights of the best checkpoint, by the network's own names.
        target: The task's model, samples and texts.
        fine_tuned: Tensors of the network that was fine-tuned for int8; None without it.
        source_job: Id of the job that was trained, if it is another one.
    """

    order: Order
    trained: Trained
    history: History | None
    weights: dict[str, torch.Tensor]
    target: ExportTarget
    fine_tuned: dict[str, torch.Tensor] | None = None
    source_job: str | None = None

    @property
    def model_name(self) -> str:
        """Name of the model in the spec."""
        return str(self.trained.spec["model"]["name"])

    @property
    def gate(self) -> dict[str, float]:
        """The allowed differences, for the files."""
        gate = self.target.spec.export
        return {"tolerance": gate.tolerance, "max_metric_drop": gate.max_metric_drop}

    @property
    def copies(self) -> CopiesInTest | None:
        """Test samples that are copies; None without any."""
        data = self.order.dataset
        if data is None or not (data.num_copies or data.num_repeated):
            return None
        return CopiesInTest(
            noun=self.target.samples.noun,
            num_test=self.trained.counts["test"],
            num_copies=data.num_copies,
            num_repeated=data.num_repeated,
        )

    @property
    def folds(self) -> dict[str, Any] | None:
        """Scores of the folds as JSON, if there are any."""
        found = self.trained.cross_validation
        return None if found is None else found.model_dump(mode="json")


def load_context(
    job_dir: JobDir, order: Order, event_log: EventLog, load_task: LoadTask
) -> Context:
    """Load what the training of this job has left."""
    trained = Trained.model_validate_json(job_dir.trained_path.read_bytes())
    store = CheckpointStore(job_dir.checkpoints_dir)
    best, last = store.load(trained.best), store.load(trained.last)
    spec = parse_spec(trained.spec)
    open_target = load_task(spec.task).open_target
    return Context(
        order=order,
        trained=trained,
        history=History.from_tensors(last.tensors_of("history")),
        weights=best.weights,
        fine_tuned=last.tensors_of("quantize/model") if trained.fine_tuned else None,
        target=open_target(
            order, spec, weights=best.weights, event_log=event_log, reading=best.reading
        ),
    )


def build_alive_report(context: Context, event_log: EventLog) -> Callable[[], None]:
    """Return what reports progress, if it is due, while the export works."""
    trained, history = context.trained, context.history
    epochs = math.ceil(trained.steps / trained.steps_per_epoch)
    done = Progress(
        epoch=epochs,
        epochs=epochs,
        step=trained.steps,
        steps=trained.steps,
        fraction=1.0,
        preview=trained.preview,
        metrics=trained.metrics if history is None else history.newest(),
    )

    def report_alive() -> None:
        if event_log.is_progress_due():
            event_log.progress(done)

    return report_alive
