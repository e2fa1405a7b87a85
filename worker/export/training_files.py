"""Files about the training itself: the weights, the metrics of each step, and their curves."""

import json

import safetensors.torch

from worker.checkpoints.history import History
from worker.export.card import figures
from worker.export.card.curve_file import write_metrics
from worker.export.context import Context
from worker.export.outputs import Outputs
from worker.process.event_log import EventLog

MOST_METADATA_BYTES = 90_000_000
"""Most metadata in a checkpoint: safetensors writes a header of up to 100 MB, which also has the
tensors' names. Source: safetensors' format, MAX_HEADER_SIZE."""


def write_training_files(context: Context, outputs: Outputs, event_log: EventLog) -> None:
    """Write files that are useful even if the export fails.

    A job that exports the model of another one writes only what running the model needs.
    """
    if context.history is not None:
        _write_weights(context, outputs, event_log)
        _write_curves(context, context.history, outputs)
    for name, content in context.target.files.items():
        outputs.path(name).write_bytes(content)
        outputs.add(name)


def _write_weights(context: Context, outputs: Outputs, event_log: EventLog) -> None:
    safetensors.torch.save_file(
        context.weights,
        outputs.path("checkpoint.safetensors"),
        metadata=_describe_weights(context, event_log),
    )
    outputs.add("checkpoint.safetensors")


def _describe_weights(context: Context, event_log: EventLog) -> dict[str, str]:
    """Return what a job needs that starts from these weights: worker.trainer.models.from_job."""
    trained, target = context.trained, context.target
    facts = {**target.scoring.describe(), "preprocessing": target.preprocessing}
    description = {
        "task": target.spec.task,
        "model": json.dumps(trained.spec["model"], separators=(",", ":")),
        **{name: json.dumps(value) for name, value in facts.items()},
    }
    if target.reading is None:
        return description
    whole = {**description, "reading": target.reading}
    if len(json.dumps(whole)) <= MOST_METADATA_BYTES:
        return whole
    message = (
        f"the description of how samples are read is larger than {MOST_METADATA_BYTES // 10**6} "
        "MB, too large for a checkpoint: no other job can start from this one's weights"
    )
    event_log.warning("reading_too_large", message)
    return description


def _write_curves(context: Context, history: History, outputs: Outputs) -> None:
    trained, target = context.trained, context.target
    write_metrics(
        history,
        outputs.path("metrics.csv"),
        training=None if target.spec.is_estimator else target.spec.training,
        steps=trained.planned_steps,
        steps_per_epoch=trained.steps_per_epoch,
    )
    outputs.add("metrics.csv")
    figures.draw_curves(
        history,
        outputs.path("curves.png"),
        title=f"{context.order.job_name}: {context.model_name}",
        best_step=trained.best_step,
        steps_per_epoch=trained.steps_per_epoch,
        metric=target.scoring.curve,
    )
    outputs.add("curves.png")
