"""Prepares a job that trains a network to find objects and their masks."""

from functools import partial
from typing import Any

import torch

from redkiln.spec.job_spec import JobSpec
from redkiln.tasks.instance_segmentation import InstanceSegmentationSpec, InstanceSegmenter
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.tasks.instance_segmentation.exported import make_exportable
from worker.tasks.object_detection.building import architecture_of
from worker.tasks.object_detection.setup import Parts, prepare_parts
from worker.trainer.detection.samples import DetectionSamples
from worker.trainer.instances.detector import InstanceDetector
from worker.trainer.instances.evaluate import INSTANCE_METRICS, evaluate_instances
from worker.trainer.instances.objects import MaskedObjects
from worker.trainer.instances.preview import build_instance_preview
from worker.trainer.optim.losses import Loss
from worker.trainer.setup import TrainingSetup

EVALUATION_BATCH = 16


def prepare(
    order: Order,
    spec: JobSpec,
    *,
    device: torch.device,
    event_log: EventLog,
    reading: str | None = None,  # noqa: ARG001 - the spec alone decides how images are read
) -> TrainingSetup:
    """Open the data, resolve the spec, and build the network on the device.

    Raises:
        TrainingFailed: the data or the spec cannot be trained.
    """
    assert isinstance(spec, InstanceSegmentationSpec)
    parts = Parts(
        objects=MaskedObjects,
        build=InstanceDetector,
        describe=describe_architecture,
        evaluate=_build_scoring,
        metrics=INSTANCE_METRICS,
        batch_size=EVALUATION_BATCH,
        make_exportable=make_exportable,
        preview=build_instance_preview,
    )
    return prepare_parts(order, spec, parts, device=device, event_log=event_log)


def describe_architecture(model: InstanceSegmenter, classes: list[str]) -> dict[str, Any]:
    """Return everything that decides a network's graph, as JSON."""
    return {**architecture_of(model, classes), "has_masks": True}


def _build_scoring(samples: DetectionSamples, loss: Loss) -> Any:
    list_truth = partial(samples.list_truth, "validation")
    return partial(evaluate_instances, loss=loss, list_truth=list_truth)
