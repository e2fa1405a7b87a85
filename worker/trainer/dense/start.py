"""Initial weights: random, pretrained, a job's of the same task, or a classifier's backbone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from torch import nn

from redkiln.spec.dense_models import DenseModel, DenseOptions
from redkiln.spec.image_models import Model
from redkiln.spec.job_weights import is_job
from redkiln.tasks import image_classification
from worker.jobdir import Order
from worker.trainer.models.builtin.resnet18 import SMALL_IMAGE
from worker.trainer.models.from_job import (
    JobCheckpoint,
    describe_initial_weights,
    open_job_checkpoint,
    refuse_start,
    take_weights,
)
from worker.trainer.models.hub import (
    PretrainedFiles,
    check_pinned,
    fetch_pretrained,
    hash_files,
    read_config,
)

CLASSIFIER = "resnet18"
"""The built-in classifier whose backbone the largest network of each kind has."""
OfModel = TypeVar("OfModel", bound=DenseModel)


class DenseNetwork(Protocol):
    """A network with a backbone."""

    @property
    def backbone(self) -> Any:
        """The part that a classifier has, too."""

    @property
    def last_layer(self) -> nn.Module:
        """The layer whose shape depends on the classes."""


@dataclass(frozen=True)
class DenseStart(Generic[OfModel]):
    """Initial weights, and the network that they belong to.

    Attributes:
        model: The spec's model, with what the weights decide.
        job: The other job's checkpoint; None for other weights.
        is_classifier: Whether that job trained a classifier, whose backbone is taken.
        files: Files of a pretrained model of transformers.
        config: Configuration that belongs to the weights of a model of transformers.
    """

    model: OfModel
    job: JobCheckpoint | None = None
    is_classifier: bool = False
    files: PretrainedFiles | None = None
    config: Mapping[str, Any] | None = None

    def load_into(self, network: DenseNetwork, *, say: Callable[[str], None]) -> None:
        """Give a new network the weights.

        Raises:
            TrainingFailed: the weights do not fit.
        """
        if self.files is not None:
            new = network.load_pretrained(self.files)  # type: ignore[attr-defined]
            say(describe_initial_weights(self.model.pretrained, new))
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


def find_dense_start(
    model: OfModel, order: Order, *, say: Callable[[str], None]
) -> DenseStart[OfModel]:
    """Find where the initial weights come from; `say` is called before the network is used.

    Raises:
        TrainingFailed: the weights are not available, or belong to another network.
    """
    is_resumed = order.resume is not None and model.initial_weights is not None
    if model.pretrained is None or is_resumed:
        return DenseStart(model)
    if not is_job(model.pretrained):
        return _find_pretrained(model, order, say=say)
    job = open_job_checkpoint(
        model.pretrained, order, others=frozenset({image_classification.NAME})
    )
    is_classifier = job.metadata.get("task") == image_classification.NAME
    found = model.model_copy(deep=True)
    found.initial_weights = job.find_origin(model.initial_weights)
    kind = type(model)
    if is_classifier and model.source == "transformers":
        message = f"{job.job_id} trained a classifier, whose backbone {model.name} cannot use"
        raise refuse_start(message, "/model/pretrained")
    theirs = _read_classifier(job, kind) if is_classifier else job.parse_model(kind)
    name, sizes = theirs.name, theirs.options
    if theirs.source == "transformers" and model.name == "auto":
        message = (
            f"{job.job_id} trained a {name}; set model.name to {name}, so that the training's "
            "defaults are those of this model"
        )
        raise refuse_start(message, "/model/name")
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
    return DenseStart(found, job, is_classifier, config=theirs.config or None)


def _find_pretrained(
    model: OfModel, order: Order, *, say: Callable[[str], None]
) -> DenseStart[OfModel]:
    """Find the files of a pretrained model of transformers."""
    assert model.pretrained is not None
    files = fetch_pretrained(
        model.pretrained,
        models_dir=order.paths.resolved_models_dir,
        cache_dir=order.paths.cache_dir,
        say=say,
        pinned=model.initial_weights,
    )
    origin = files.revision or f"sha256 {hash_files(files.weights)}"
    check_pinned(model.initial_weights, origin, name=model.pretrained)
    found = model.model_copy(deep=True)
    found.initial_weights = origin
    config = read_config(files)
    found.name = config.get("model_type") if model.name == "auto" else model.name
    if found.options.channels == "auto":
        found.options.channels = 3
    return DenseStart(found, files=files, config=config)


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
