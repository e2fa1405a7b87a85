"""Initial weights: random, those of a job of the same task, or the backbone of a classifier."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from torch import nn

from redkiln.spec.image_models import DenseModel, DenseOptions, Model
from redkiln.tasks import image_classification
from worker.jobdir import Order
from worker.trainer.models.from_job import (
    JobCheckpoint,
    describe_initial_weights,
    open_job_checkpoint,
    refuse_start,
    take_weights,
)
from worker.trainer.models.resnet18 import SMALL_IMAGE

CLASSIFIER = "resnet18"
"""The built-in classifier whose backbone the largest network of each kind has."""
OfModel = TypeVar("OfModel", bound=DenseModel)


class DenseNetwork(Protocol):
    """A network with a backbone."""

    @property
    def backbone(self) -> nn.Module:
        """The part that a classifier has, too."""

    @property
    def last_layer(self) -> nn.Module:
        """The layer whose shape depends on the classes."""


@dataclass(frozen=True)
class DenseStart(Generic[OfModel]):
    """Initial weights, and the network that they belong to.

    Attributes:
        model: The spec's model, with what the weights decide.
        job: The other job's checkpoint; None for random weights.
        is_classifier: Whether that job trained a classifier, whose backbone is taken.
    """

    model: OfModel
    job: JobCheckpoint | None = None
    is_classifier: bool = False

    def load_into(self, network: DenseNetwork, *, say: Callable[[str], None]) -> None:
        """Give a new network the weights.

        Raises:
            TrainingFailed: the weights do not fit.
        """
        if self.job is None:
            return
        assert isinstance(network, nn.Module)
        new = take_weights(
            network.backbone if self.is_classifier else network,
            self.job,
            head=None if self.is_classifier else network.last_layer,
            remedy="set model.options.channels to auto",
            pointer="/model/options/channels",
        )
        if self.is_classifier:
            new = [name for name, _ in network.named_children() if name != "backbone"]
        say(describe_initial_weights(self.model.pretrained, new))


def find_dense_start(model: OfModel, order: Order) -> DenseStart[OfModel]:
    """Find where the initial weights come from.

    Raises:
        TrainingFailed: the weights are not available, or belong to another network.
    """
    is_resumed = order.resume is not None and model.initial_weights is not None
    if model.pretrained is None or is_resumed:
        return DenseStart(model)
    job = open_job_checkpoint(
        model.pretrained, order, others=frozenset({image_classification.NAME})
    )
    is_classifier = job.metadata.get("task") == image_classification.NAME
    found = model.model_copy(deep=True)
    found.initial_weights = job.find_origin(model.initial_weights)
    kind = type(model)
    theirs = _read_classifier(job, kind) if is_classifier else job.parse_model(kind)
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
    return DenseStart(found, job, is_classifier)


def _read_classifier(job: JobCheckpoint, kind: type[OfModel]) -> OfModel:
    """Return the network that a classifier's backbone fits, with the channels of its images."""
    model = job.parse_model(Model)
    size, channels = model.options.image_size, model.options.channels
    is_large = isinstance(size, int) and size > SMALL_IMAGE
    if (model.source, model.name) != ("builtin", CLASSIFIER) or not is_large:
        message = (
            f"{job.job_id} trained a {model.name} on images of {size} pixels; {kind.largest} can "
            f"start from a {CLASSIFIER} trained on images of more than {SMALL_IMAGE} pixels, or "
            "from a job of the same task"
        )
        raise refuse_start(message, "/model/pretrained")
    return kind(name=kind.largest, options=DenseOptions(channels=channels))
