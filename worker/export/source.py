"""Loads the model of another job, which is exported again, from the files that it published."""

import json
from pathlib import Path
from typing import Any

import safetensors
import torch
from pydantic import ValidationError

from redkiln.failure import FailureCode
from redkiln.spec.problems import SpecError
from redkiln.tasks import parse_spec
from worker.export.context import Context
from worker.export.target import LoadTask
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.results.trained import Trained


def load_source(order: Order, event_log: EventLog, load_task: LoadTask) -> Context:
    """Load the trained model from its checkpoint and its manifest.

    Raises:
        TrainingFailed: One of the two is gone or cannot be read.
    """
    job_id = order.spec["source"]
    if order.initial is None or order.manifest is None:
        message = f"the checkpoint or the manifest of {job_id} is gone; train the model again"
        raise TrainingFailed(FailureCode.BAD_INPUT, message)
    try:
        trained = read_trained(Path(order.manifest), export=order.spec["export"])
        weights, reading = _read_checkpoint(Path(order.initial))
        spec = parse_spec(trained.spec)
    except (ValueError, KeyError, SpecError, safetensors.SafetensorError) as error:
        message = f"the files of {job_id} cannot be read: {error}"
        raise TrainingFailed(FailureCode.BAD_INPUT, message) from error
    target = load_task(spec.task).open_target(
        order.model_copy(update={"initial": None}),
        spec,
        weights=weights,
        event_log=event_log,
        reading=reading,
    )
    return Context(order, trained, None, weights, target, source_job=job_id)


def read_trained(path: Path, *, export: dict[str, Any]) -> Trained:
    """Return what a manifest says about the training of its model.

    Args:
        path: The manifest.
        export: Requirements of the further files, as `export` in a spec.

    Raises:
        ValueError: The manifest lacks something.
    """
    try:
        return _build_trained(json.loads(path.read_bytes()), export)
    except (KeyError, TypeError, ValidationError) as error:
        raise ValueError(f"{path.name}: {type(error).__name__}: {error}") from error


def _build_trained(manifest: dict[str, Any], export: dict[str, Any]) -> Trained:
    best = manifest["best"]
    # Earlier releases did not write the length of the training.
    length = manifest.get("training", {"steps": best["step"]})
    guessed = max(1, round(best["step"] / max(1, best["epoch"])))
    return Trained.model_validate(
        {
            "spec": {**manifest["spec"], "export": export},
            "best": "",
            "best_step": best["step"],
            "best_epoch": best["epoch"],
            "last": "",
            "steps": length["steps"],
            "planned_steps": length.get("planned_steps", length["steps"]),
            "finished_early": length.get("finished_early", False),
            "steps_per_epoch": length.get("steps_per_epoch", guessed),
            "metrics": _validation_metrics(manifest["metrics"]),
            "counts": manifest["dataset"]["counts"],
            "num_parameters": manifest["model"]["num_parameters"],
            "first_step_at": None,
            "seconds": {},
            "environment": manifest["environment"],
            "efficiency": manifest.get("efficiency"),
            "cross_validation": manifest.get("cross_validation"),
        }
    )


def _validation_metrics(metrics: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if not name.startswith("test/")}


def _read_checkpoint(path: Path) -> tuple[dict[str, torch.Tensor], str | None]:
    """Return the weights by name, and how samples become the network's inputs."""
    with safetensors.safe_open(path, framework="pt") as file:
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return weights, (file.metadata() or {}).get("reading")
