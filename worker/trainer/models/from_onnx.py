"""Image classifiers that a user brings as an ONNX file.

A resolved spec names the file by its digest, and both the trainer and the export read it again from
the job's folder, so they change it in the same way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import torch

from redkiln.failure import FailureCode
from redkiln.spec.image_models import Model
from worker.jobdir import Order
from worker.onnx_module.classifier import Classifier, read_classifier
from worker.onnx_module.head import replace_head
from worker.onnx_module.module import OnnxModule
from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.reset import reset_weights
from worker.process.failed import TrainingFailed
from worker.trainer.models.hub import hash_files

POINTER = "/model/file"
CLOSE = 1e-4
"""Largest difference, relative to the largest output, of images alone and in a batch."""


@dataclass(frozen=True)
class OnnxFile:
    """The file of a job's model.

    Attributes:
        classifier: Its content, and what it takes and returns.
        sha256: Digest of the file as it was sent.
    """

    classifier: Classifier
    sha256: str


def open_onnx(model: Model, order: Order) -> OnnxFile:
    """Read the file that a spec names; the agent has downloaded it.

    Raises:
        TrainingFailed: It is gone, or cannot be trained.
    """
    found = order.initial if model.file and model.file.startswith("job:") else order.bundle_path
    if found is None:
        raise _refuse(f"the file {model.file} no longer exists; send it again")
    path = Path(found)
    given = model.normalization
    mean, std = (None, None) if given is None else (given.mean, given.std)
    try:
        classifier = read_classifier(path, mean=mean, std=std)
    except OnnxRefused as error:
        raise _refuse(str(error)) from error
    return OnnxFile(classifier, hash_files((path,)))


def fill_options(model: Model, file: OnnxFile) -> Model:
    """Return the model with the input size and channels of its file.

    Raises:
        TrainingFailed: The spec wants others.
    """
    filled = model.model_copy(deep=True)
    options, classifier = filled.options, file.classifier
    if filled.name == "auto":
        filled.name = "onnx"
    facts = {"image_size": classifier.image_size, "channels": classifier.channels}
    for name, own in facts.items():
        wanted = getattr(options, name)
        if own is not None and wanted not in ("auto", own):
            message = f"the graph takes {name} {own}, not {wanted}; remove model.options.{name}"
            raise _refuse(message, f"/model/options/{name}")
        if own is not None:
            setattr(options, name, own)
    return filled


def build_from_onnx(model: Model, file: OnnxFile, *, num_classes: int) -> OnnxModule:
    """Build the network of a file, with a new head if the number of classes differs.

    Raises:
        TrainingFailed: The graph cannot be run, or its head cannot be found.
    """
    classifier = file.classifier
    head = classifier.head
    try:
        if head is not None and head.num_classes != num_classes:
            replace_head(classifier.model, head, num_classes=num_classes, seed=0)
        network = OnnxModule(classifier.model, head=head.names if head else ())
    except OnnxRefused as error:
        raise _refuse(str(error)) from error
    if next(network.parameters(), None) is None:
        raise _refuse("the graph has no weight that could be trained")
    _try(network, model, classifier, num_classes=num_classes)
    return network


def start_from_onnx(
    model: Model, file: OnnxFile, *, num_classes: int, say: Callable[[str], None]
) -> OnnxModule:
    """Build the network as training starts with it, and describe the file.

    Raises:
        TrainingFailed: See `build_from_onnx`; or no weight is to be trained.
    """
    old = file.classifier.head.num_classes if file.classifier.head else None
    network = build_from_onnx(model, file, num_classes=num_classes)
    for note in file.classifier.notes:
        say(note)
    if old not in (None, num_classes):
        say(f"the file has {old} classes, the data set {num_classes}: the head is new")
    if model.weights == "reset":
        reset_weights(network)
        say("all weights are random again")
    _freeze(network, model)
    trained = sum(p.numel() for p in network.parameters() if p.requires_grad)
    total = sum(p.numel() for p in network.parameters())
    say(f"{trained:,} of {total:,} weights of the file are trained")
    return network.train()


def _freeze(network: OnnxModule, model: Model) -> None:
    """Leave only those parameters to train that the spec names."""
    if model.train == "all":
        return
    if model.train == "head" and not len(network.head):
        raise _refuse("the head of the graph was not found; name weights instead", "/model/train")
    num = 0
    for key, parameter in network.named_parameters():
        name = network.names[key]
        is_trained = (
            key.startswith("head.")
            if model.train == "head"
            else any(fnmatchcase(name, pattern) for pattern in model.train)
        )
        parameter.requires_grad_(is_trained)
        num += is_trained
    if not num:
        names = ", ".join(list(network.names.values())[:5])
        raise _refuse(f"model.train fits no weight of the file; it has {names}", "/model/train")


def _try(network: OnnxModule, model: Model, classifier: Classifier, *, num_classes: int) -> None:
    """Pass images through the network alone, together and in training, before it is trained."""
    size = model.options.image_size
    assert isinstance(size, int)
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(3, classifier.channels, size, size, generator=generator)
    network.eval()
    try:
        alone = torch.cat([_run(network, one[None]) for one in images])
        try:
            together = _run(network, images)
        except TrainingFailed as error:
            raise _refuse(
                f"{error}; a Reshape before it may allow one batch size only. Export the file "
                "with a dynamic batch"
            ) from error
        _try_training(network, images)
    finally:
        network.train()
    if together.shape != (3, num_classes):
        message = (
            f"the graph returns {list(together.shape)} for 3 images, not [3, {num_classes}]; a "
            "classifier for other classes needs a last layer (Gemm, MatMul or Conv) that can be "
            "replaced"
        )
        raise _refuse(message)
    if classifier.returns == "logits":
        _refuse_probabilities(together)
    gap, largest = (together - alone).abs().max(), alone.abs().max()
    if not gap <= CLOSE * largest:
        reshapes = [node.name for node in classifier.model.graph.node if node.op_type == "Reshape"]
        message = (
            "the graph mixes the images of a batch, so it can only run one at a time; look at its "
            f"Reshapes: {', '.join(reshapes) or 'none'}"
        )
        raise _refuse(message)


def _run(network: OnnxModule, images: torch.Tensor) -> torch.Tensor:
    try:
        with torch.inference_mode():
            result: torch.Tensor = network(images)
    except OnnxRefused as error:
        raise _refuse(str(error)) from error
    return result


def _try_training(network: OnnxModule, images: torch.Tensor) -> None:
    """Run a forward and a backward pass in training mode; nothing of it stays."""
    kept = {name: value.clone() for name, value in network.named_buffers()}
    try:
        with torch.random.fork_rng(devices=[]):
            network.train()(images).sum().backward()
    except OnnxRefused as error:
        raise _refuse(f"the graph cannot be trained: {error}") from error
    except RuntimeError as error:
        if isinstance(error, (torch.OutOfMemoryError, torch.AcceleratorError)):
            raise
        first = str(error).partition("\n")[0]
        raise _refuse(f"the graph has no usable gradient: {first}") from error
    finally:
        network.zero_grad()
        with torch.no_grad():
            for name, value in network.named_buffers():
                value.copy_(kept[name])


def _refuse_probabilities(outputs: torch.Tensor) -> None:
    """Refuse a graph whose outputs are probabilities although its end does not show it."""
    if outputs.shape[1] > 1 and (outputs >= 0).all() and ((outputs.sum(1) - 1).abs() < CLOSE).all():
        message = (
            "the graph returns probabilities, but no Softmax at its end can be removed; "
            "export the model so that it returns logits"
        )
        raise _refuse(message)


def _refuse(message: str, pointer: str = POINTER) -> TrainingFailed:
    return TrainingFailed(FailureCode.BAD_INPUT, message, pointer=pointer)
