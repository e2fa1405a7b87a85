"""Initial weights of a detector: random, another detector's, or the backbone of a classifier."""

from collections.abc import Callable
from dataclasses import dataclass

from redkiln.spec.image_models import Model
from redkiln.tasks import image_classification, object_detection
from worker.jobdir import Order
from worker.trainer.detection.detector import Detector
from worker.trainer.models.from_job import (
    JobCheckpoint,
    describe_initial_weights,
    open_job_checkpoint,
    refuse_start,
    take_weights,
)
from worker.trainer.models.resnet18 import SMALL_IMAGE

CLASSIFIER = "resnet18"
ITS_DETECTOR: object_detection.DetectorName = "dense-medium"
"""The built-in classifier whose backbone a detector has, and that detector."""


@dataclass(frozen=True)
class DetectorStart:
    """Initial weights, and the detector that they belong to.

    Attributes:
        model: The spec's model, with what the weights decide.
        job: The other job's checkpoint; None for random weights.
        is_classifier: Whether that job trained a classifier, whose backbone is taken.
    """

    model: object_detection.Detector
    job: JobCheckpoint | None = None
    is_classifier: bool = False

    def load_into(self, detector: Detector, *, say: Callable[[str], None]) -> None:
        """Give a new detector the weights.

        Raises:
            TrainingFailed: the weights do not fit.
        """
        if self.job is None:
            return
        new = take_weights(
            detector.backbone if self.is_classifier else detector,
            self.job,
            head=None if self.is_classifier else detector.head.to_logits,
            remedy="set model.options.channels to auto",
            pointer="/model/options/channels",
        )
        new = ["pyramid", "head"] if self.is_classifier else new
        say(describe_initial_weights(self.model.pretrained, new))


def find_detector_start(model: object_detection.Detector, order: Order) -> DetectorStart:
    """Find where the initial weights come from.

    Raises:
        TrainingFailed: the weights are not available, or belong to another network.
    """
    is_resumed = order.resume is not None and model.initial_weights is not None
    if model.pretrained is None or is_resumed:
        return DetectorStart(model)
    job = open_job_checkpoint(
        model.pretrained, order, others=frozenset({image_classification.NAME})
    )
    is_classifier = job.metadata.get("task") == image_classification.NAME
    found = model.model_copy(deep=True)
    found.initial_weights = job.find_origin(model.initial_weights)
    theirs = _read_classifier(job) if is_classifier else job.parse_model(object_detection.Detector)
    name, sizes = theirs.name, theirs.options
    if model.name not in ("auto", name):
        message = (
            f"the weights of {job.job_id} fit {name}, not {model.name}; remove model.name, or set "
            f"it to {name}"
        )
        raise refuse_start(message, "/model/name")
    found.name = name
    if found.options.channels == "auto":
        found.options.channels = sizes.channels
    if found.options.image_size == "auto":
        found.options.image_size = sizes.image_size
    return DetectorStart(found, job, is_classifier)


def _read_classifier(job: JobCheckpoint) -> object_detection.Detector:
    """Return the detector that a classifier's backbone fits, with the channels of its images."""
    model = job.parse_model(Model)
    size, channels = model.options.image_size, model.options.channels
    is_large = isinstance(size, int) and size > SMALL_IMAGE
    if (model.source, model.name) != ("builtin", CLASSIFIER) or not is_large:
        message = (
            f"{job.job_id} trained a {model.name} on images of {size} pixels; a detector can start "
            f"from a {CLASSIFIER} trained on images of more than {SMALL_IMAGE} pixels, or from a "
            "detection job"
        )
        raise refuse_start(message, "/model/pretrained")
    options = object_detection.DetectorOptions(channels=channels)
    return object_detection.Detector(name=ITS_DETECTOR, options=options)
