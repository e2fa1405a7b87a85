"""Prepares a job that trains a network to find objects and their masks."""

from functools import partial
from typing import Any

from redkiln.tasks.instance_segmentation import InstanceSegmenter
from worker.tasks.instance_segmentation.exported import make_exportable
from worker.tasks.object_detection import setup
from worker.tasks.object_detection.building import architecture_of
from worker.tasks.object_detection.setup import Parts
from worker.trainer.detection.samples import DetectionSamples
from worker.trainer.instances.detector import InstanceDetector
from worker.trainer.instances.evaluate import INSTANCE_METRICS, evaluate_instances
from worker.trainer.instances.objects import MaskedObjects
from worker.trainer.instances.preview import build_instance_preview
from worker.trainer.optim.losses import Loss

EVALUATION_BATCH = 16


def describe_architecture(model: InstanceSegmenter, classes: list[str]) -> dict[str, Any]:
    """Return everything that decides a network's graph, as JSON."""
    return {**architecture_of(model, classes), "has_masks": True}


def _build_scoring(samples: DetectionSamples, loss: Loss) -> Any:
    list_truth = partial(samples.list_truth, "validation")
    return partial(evaluate_instances, loss=loss, list_truth=list_truth)


prepare = partial(
    setup.prepare,
    parts=Parts(
        objects=MaskedObjects,
        build=InstanceDetector,
        describe=describe_architecture,
        evaluate=_build_scoring,
        metrics=INSTANCE_METRICS,
        batch_size=EVALUATION_BATCH,
        make_exportable=make_exportable,
        preview=build_instance_preview,
    ),
)
"""Opens the data, resolves the spec, and builds the network on the device."""
