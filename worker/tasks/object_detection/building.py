"""Builds the detector of a job: one of our own, or one of transformers, and what differs for each.

A detector of transformers computes its loss itself, so it gets the targets as a second input.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import torch

from redkiln.tasks import object_detection
from worker.trainer.dense.library import LIBRARY
from worker.trainer.detection.batches import DetectionBatches
from worker.trainer.detection.detector import Detector
from worker.trainer.detection.loss import DetectionLoss
from worker.trainer.detection.network import DetectorNetwork
from worker.trainer.detection.samples import DetectionSamples
from worker.trainer.inputs import Batch
from worker.trainer.optim.losses import Loss
from worker.trainer.scoring.validation import Samples
from worker.trainer.setup import Batches

OfModel = TypeVar("OfModel", bound=object_detection.Detector)


def complete_model(
    model: OfModel, config: Mapping[str, Any] | None, *, num_classes: int
) -> OfModel:
    """Return a model with its whole configuration, once its sizes are known.

    Args:
        model: Model of a resolved spec.
        config: Configuration that belongs to pretrained weights; None without any.
        num_classes: Number of classes.

    Raises:
        TrainingFailed: the configuration is not valid, or the images do not suit the model.
    """
    if model.source != LIBRARY:
        return model
    from worker.trainer.queries.configuration import complete_config

    whole = complete_config(model, config, num_classes=num_classes)
    return model.model_copy(update={"config": whole, "name": whole["model_type"]})


def build_detector(model: object_detection.Detector, *, num_classes: int) -> DetectorNetwork:
    """Build a new detector from a resolved spec; its weights follow torch's global generator.

    Raises:
        TrainingFailed: the library that it comes from cannot build it.
    """
    if model.source == LIBRARY:
        from worker.trainer.queries.detector import QueryDetector

        return QueryDetector(model, num_classes=num_classes)
    options = model.options
    assert options.image_size != "auto"
    assert options.channels != "auto"
    return Detector(
        model.name,
        num_classes=num_classes,
        channels=options.channels,
        image_size=options.image_size,
    )


def architecture_of(model: object_detection.Detector, classes: list[str]) -> dict[str, Any]:
    """Return everything that decides a detector's graph, as JSON."""
    return {
        "name": model.name,
        "image_size": model.options.image_size,
        "channels": model.options.channels,
        "classes": len(classes),
        **({"config": model.config} if model.source == LIBRARY else {}),
    }


def loss_builder(detector: DetectorNetwork, samples: DetectionSamples) -> Callable[..., Loss]:
    """Return what builds the loss; `is_equal` makes losses of different epochs comparable."""
    if isinstance(detector, Detector):
        return partial(
            DetectionLoss,
            detector,
            objects_an_image=samples.mean_objects("train"),
            has_crowds=samples.objects.has_crowds,
        )
    from worker.trainer.queries.detector import QueryLoss

    return lambda **_: QueryLoss()


def shape_batches(detector: DetectorNetwork, batches: DetectionBatches) -> Batches:
    """Return training batches as a detector takes them."""
    if isinstance(detector, Detector):
        return batches
    from worker.trainer.queries.batches import QueryBatches

    return QueryBatches(batches)


def choose_samples(detector: DetectorNetwork, samples: DetectionSamples) -> Samples:
    """Return the samples whose batches a detector is scored on."""
    if isinstance(detector, Detector):
        return samples
    from worker.trainer.queries.batches import QuerySamples

    return QuerySamples(samples)


def shape_batch(detector: DetectorNetwork, images: torch.Tensor, targets: torch.Tensor) -> Batch:
    """Return a batch of images and targets as a detector takes it in training."""
    if isinstance(detector, Detector):
        return images, targets
    from worker.trainer.queries.batches import with_targets

    return with_targets((images, targets))
