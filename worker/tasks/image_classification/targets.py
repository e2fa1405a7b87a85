"""The targets of images: one class, or several labels. Their loss, output, scoring and batches."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from redkiln.datasets import DatasetIndex
from redkiln.tasks.image_classification import ImageTraining, Options
from worker.export.exportable import Exportable
from worker.export.labelling import calibrate_labels, give_probabilities
from worker.export.scoring.classification import Classification
from worker.export.target import Samples, Scoring
from worker.tasks.image_classification.exported import make_exportable
from worker.trainer.images.image_set import ImageSet
from worker.trainer.inputs import Batch
from worker.trainer.optim.label_losses import build_label_loss
from worker.trainer.optim.losses import Loss, build_classifier_loss


def build_loss(training: ImageTraining, images: ImageSet) -> Loss:
    """Build the loss of an image's class, or of its labels."""
    counts, device = images.count_classes("train"), images.device
    if images.has_labels:
        num = images.num("train")
        return build_label_loss(
            training, classes=images.classes, counts=counts, num=num, device=device
        )
    return build_classifier_loss(training, classes=images.classes, counts=counts, device=device)


def make_image_exportable(index: DatasetIndex, network: nn.Module, **facts: Any) -> Exportable:
    """Do what `make_exportable` does; with probabilities if an image can have several labels."""
    exportable = make_exportable(network, **facts)
    return exportable if index.labels_separator is None else give_probabilities(exportable)


def build_scoring(
    index: DatasetIndex,
    exportable: Exportable,
    samples: Samples,
    targets: NDArray[np.int64],
    *,
    validation: NDArray[np.int64],
) -> tuple[Exportable, Scoring]:
    """Build the scoring; for several labels with what suits the validation rows, as the model."""
    if index.labels_separator is None:
        return exportable, Classification(index.classes)
    return calibrate_labels(
        exportable, samples, targets, classes=index.classes, validation=validation
    )


def make_up_images(
    options: Options,
    num_classes: int,
    memory_format: torch.memory_format,
    device: torch.device,
    num: int,
    *,
    has_labels: bool = False,
) -> Batch:
    """Return a batch of noise in the shape of the job's images, for measurements.

    Its targets are labels (B,), or (B, classes) if an image can have several.
    """
    assert options.image_size != "auto"
    assert options.channels != "auto"
    images = torch.randn(num, options.channels, options.image_size, options.image_size)
    labels = torch.arange(num, device=device) % num_classes
    if has_labels:
        labels = nn.functional.one_hot(labels, num_classes).float()
    return images.to(device=device, memory_format=memory_format), labels
