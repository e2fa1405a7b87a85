"""Initial weights of image models: random, pretrained, or another job's.

First the architecture is chosen, which decides how images are read. Then the network is built and
receives the weights. A head for another number of classes stays random.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from torch import nn

from redkiln.failure import FailureCode
from redkiln.spec.image_models import Model
from redkiln.spec.job_weights import is_job
from redkiln.spec.own_code import CODE, uploaded_weights
from worker.jobdir import Order
from worker.process.failed import TrainingFailed
from worker.trainer.models import build_model
from worker.trainer.models.backbone import find_head
from worker.trainer.models.from_code import OwnCode, build_from_code, open_code, try_network
from worker.trainer.models.from_file import start_from_file
from worker.trainer.models.from_job import (
    JobCheckpoint,
    describe_initial_weights,
    open_job_checkpoint,
    take_weights,
)
from worker.trainer.models.from_onnx import (
    OnnxFile,
    fill_options,
    open_onnx,
    start_from_onnx,
)
from worker.trainer.models.hub import (
    PretrainedFiles,
    check_pinned,
    fetch_pretrained,
    hash_files,
    read_config,
)
from worker.trainer.models.trial_pass import Channels, try_images

SIZES = ("image_size", "img_size", "num_channels")
"""Fields of a whole configuration that depend on the images."""


@dataclass(frozen=True)
class Start:
    """Initial weights, and the architecture that they belong to.

    Attributes:
        model: Model from the spec, with the weights' own architecture and sizes where the spec
            leaves them open.
        config: Content of a pretrained model's `config.json`.
        files: Files of a pretrained model.
        job: Another job's checkpoint.
        onnx: A user's ONNX file.
        code: A user's own code.
        weights: An uploaded file with weights.
    """

    model: Model
    config: Mapping[str, Any] | None = None
    files: PretrainedFiles | None = None
    job: JobCheckpoint | None = None
    onnx: OnnxFile | None = None
    code: OwnCode | None = None
    weights: Path | None = None


def find_start(model: Model, order: Order, *, say: Callable[[str], None]) -> Start:
    """Find where the initial weights come from.

    Raises:
        TrainingFailed: the weights are not available, or are of another architecture.
    """
    if model.source == "onnx":
        file = open_onnx(model, order)
        return Start(fill_options(model, file), onnx=file)
    code = open_code(model, order) if model.source == CODE else None
    has_weights = order.resume is not None and model.initial_weights is not None
    if model.pretrained is None or has_weights:
        return Start(model, code=code)
    if code is not None or uploaded_weights(model.pretrained) is not None:
        return _find_own(model, order, code)
    if is_job(model.pretrained):
        return _find_job(model, open_job_checkpoint(model.pretrained, order))
    files = fetch_pretrained(
        model.pretrained,
        models_dir=order.paths.resolved_models_dir,
        cache_dir=order.paths.cache_dir,
        say=say,
        pinned=model.initial_weights,
    )
    config = read_config(files)
    origin = files.revision or f"sha256 {hash_files(files.weights)}"
    check_pinned(model.initial_weights, origin, name=model.pretrained)
    found = model.model_copy(deep=True)
    found.initial_weights = origin
    size, channels = _sizes(config)
    if model.source == "timm":
        from worker.trainer.models.from_timm import name_of

        found.name = name_of(config, wanted=model.name)
    _fill(found, image_size=size, channels=channels)
    return Start(found, config=config, files=files)


def complete_model(model: Model, start: Start, *, num_classes: int) -> Model:
    """Return the model with its whole configuration, once its sizes are known.

    Raises:
        TrainingFailed: the images do not suit the model.
    """
    size, channels = model.options.image_size, model.options.channels
    assert size != "auto"
    assert channels != "auto"
    complete = model.model_copy(deep=True)
    if model.source == "transformers":
        from worker.trainer.models.from_transformers import complete_config

        complete.config = complete_config(
            model, start.config, image_size=size, channels=channels, num_classes=num_classes
        )
        if model.name == "auto":
            complete.name = str(complete.config["model_type"])
    elif model.source == "timm":
        from worker.trainer.models.from_timm import complete_arguments

        complete.config = complete_arguments(model, image_size=size)
    return complete


def build_started(
    model: Model, start: Start, *, num_classes: int, say: Callable[[str], None]
) -> nn.Module:
    """Build the network of a complete model with its initial weights, on the CPU.

    Raises:
        TrainingFailed: the weights do not fit, or the images do not suit the model.
    """
    if start.onnx is not None:
        return start_from_onnx(model, start.onnx, num_classes=num_classes, say=say)
    if start.files is not None and model.source == "timm":
        from worker.trainer.models.from_timm import build_from_timm

        network = build_from_timm(model, num_classes=num_classes, weights=start.files)
        say(describe_initial_weights(model.pretrained, []))
    elif start.code is not None:
        network = build_from_code(model, start.code, num_classes=num_classes)
        try_network(network, model, start.code, num_classes=num_classes)
    else:
        network = build_model(model, num_classes=num_classes)
    if start.weights is not None:
        start_from_file(
            network,
            start.weights,
            head=find_head(network),
            strict=model.strict,
            name=str(model.pretrained),
            say=say,
        )
    elif start.files is not None and model.source == "transformers":
        from worker.trainer.models.from_transformers import load_into_transformers

        say(
            describe_initial_weights(model.pretrained, load_into_transformers(network, start.files))
        )
    elif start.job is not None:
        new = take_weights(
            network,
            start.job,
            head=find_head(network),
            remedy="set model.options.image_size and channels to auto",
            pointer="/model/options/image_size",
        )
        say(describe_initial_weights(model.pretrained, new))
    if model.source not in ("builtin", CODE):
        try_images(
            network, model, build_for=partial(_build_for, model, start, num_classes=num_classes)
        )
    return network


def _build_for(
    model: Model, start: Start, size: int, channels: Channels, *, num_classes: int
) -> nn.Module:
    other = model.model_copy(deep=True)
    other.config = {k: v for k, v in model.config.items() if k not in SIZES}
    other.options.image_size, other.options.channels = size, channels
    return build_model(
        complete_model(other, start, num_classes=num_classes), num_classes=num_classes
    )


def _find_own(model: Model, order: Order, code: OwnCode | None) -> Start:
    """Find the weights of a network whose architecture does not follow from them."""
    found = model.model_copy(deep=True)
    if is_job(model.pretrained):
        job = open_job_checkpoint(model.pretrained, order)
        found.initial_weights = job.find_origin(model.initial_weights)
        return Start(found, job=job, code=code)
    path = _locate_weights(model, order, code)
    found.initial_weights = f"sha256 {hash_files((path,))}"
    check_pinned(model.initial_weights, found.initial_weights, name=str(model.pretrained))
    return Start(found, code=code, weights=path)


def _locate_weights(model: Model, order: Order, code: OwnCode | None) -> Path:
    """Return the path of uploaded weights: the sent file, or a file in the sent folder."""
    assert model.pretrained is not None
    sent = None if order.bundle_path is None else Path(order.bundle_path)
    path = sent if code is None else code.folder / model.pretrained
    if path is None or not path.is_file():
        message = (
            f"the weights {model.pretrained} were not sent; ignore files (.gitignore, "
            ".redkilnignore) must not exclude them"
        )
        raise _refused(message, "/model/pretrained")
    return path


def _find_job(model: Model, job: JobCheckpoint) -> Start:
    source = job.parse_model(Model)
    if source.source == CODE:
        message = (
            f"{job.job_id} trained its user's own class; send that code again with "
            "model.source: code, and keep model.pretrained"
        )
        raise _refused(message, "/model/source")
    if model.source != "job" and (model.source, model.name) not in (
        (source.source, source.name),
        (source.source, "auto"),
    ):
        message = (
            f"{job.job_id} trained a {source.name}, not a {model.name}; remove model.name, or set "
            f"it to {source.name}"
        )
        raise _refused(message, "/model/name")
    found = source.model_copy(deep=True)
    found.pretrained = model.pretrained
    found.initial_weights = job.find_origin(model.initial_weights)
    # The spec overrides the job; a value equal to the default counts as not set.
    found.config = {**(source.config if source.source == "timm" else {}), **model.config}
    own, theirs = model.options, source.options
    usual = type(own)()
    kept = [name for name in ("dropout", "resize") if getattr(own, name) == getattr(usual, name)]
    found.options = own.model_copy(update={name: getattr(theirs, name) for name in kept})
    assert isinstance(theirs.image_size, int)
    assert isinstance(theirs.channels, int)
    _fill(found, image_size=theirs.image_size, channels=theirs.channels)
    return Start(found, config=source.config or None, job=job)


def _sizes(config: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the side and channels of a pretrained model, as far as its files say."""
    input_size = (config.get("pretrained_cfg") or {}).get("input_size")
    if isinstance(input_size, list) and len(input_size) == 3:
        return int(input_size[2]), int(input_size[0])
    # A model of images and texts has them in a separate field.
    seen = config.get("vision_config")
    if not isinstance(seen, dict):
        seen = config
    size, channels = seen.get("image_size"), seen.get("num_channels", 3)
    return (size if isinstance(size, int) else None), channels


def _fill(model: Model, *, image_size: int | None, channels: int | None) -> None:
    options = model.options
    if options.image_size == "auto" and image_size is not None:
        options.image_size = image_size
    if options.channels == "auto" and channels in (1, 3):
        known: Literal[1, 3] = 1 if channels == 1 else 3
        options.channels = known


def _refused(message: str, pointer: str) -> TrainingFailed:
    return TrainingFailed(FailureCode.BAD_INPUT, message, pointer=pointer)
