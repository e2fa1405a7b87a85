"""Initial weights of image models: random, pretrained, or another job's.

First the architecture is chosen, which decides how images are read. Then the network is built and
receives the weights. A head for another number of classes stays random.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from torch import nn

from redkiln.failure import FailureCode
from redkiln.spec.image_models import Model
from redkiln.spec.job_weights import is_job
from worker.jobdir import Order
from worker.process.failed import TrainingFailed
from worker.trainer.models import build_model
from worker.trainer.models.backbone import find_head
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
    CONFIG,
    PretrainedFiles,
    check_pinned,
    fetch_pretrained,
    hash_files,
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
    """

    model: Model
    config: Mapping[str, Any] | None = None
    files: PretrainedFiles | None = None
    job: JobCheckpoint | None = None
    onnx: OnnxFile | None = None


def find_start(model: Model, order: Order, *, say: Callable[[str], None]) -> Start:
    """Find where the initial weights come from.

    Raises:
        TrainingFailed: the weights are not available, or are of another architecture.
    """
    if model.source == "onnx":
        file = open_onnx(model, order)
        return Start(fill_options(model, file), onnx=file)
    has_weights = order.resume is not None and model.initial_weights is not None
    if model.pretrained is None or has_weights:
        return Start(model)
    if is_job(model.pretrained):
        return _find_job(model, open_job_checkpoint(model.pretrained, order))
    files = fetch_pretrained(
        model.pretrained,
        models_dir=order.paths.resolved_models_dir,
        cache_dir=order.paths.cache_dir,
        say=say,
        pinned=model.initial_weights,
    )
    config = _read_config(files)
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
    else:
        network = build_model(model, num_classes=num_classes)
    if start.files is not None and model.source == "transformers":
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
    if model.source != "builtin":
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


def _find_job(model: Model, job: JobCheckpoint) -> Start:
    source = job.parse_model(Model)
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


def _read_config(files: PretrainedFiles) -> dict[str, Any]:
    try:
        config = json.loads((files.folder / CONFIG).read_bytes())
    except (OSError, ValueError) as error:
        message = f"{files.folder / CONFIG} cannot be read: {error}"
        raise _refused(message, "/model/pretrained") from error
    if not isinstance(config, dict):
        raise _refused(f"{files.folder / CONFIG} is not a JSON object", "/model/pretrained")
    return config


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
