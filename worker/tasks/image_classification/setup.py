"""The task `image-classification`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from redkiln.datasets import DatasetIndex
from redkiln.failure import FailureCode
from redkiln.spec.image_models import GREY_MODEL, SMALL_MODEL
from redkiln.spec.job_spec import JobSpec, Training
from redkiln.tasks.image_classification import (
    ImageClassificationSpec,
    Model,
)
from worker.engines.job import choose_batch, compile_engine, describe_engine
from worker.export.exportable import Exportable
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.tasks.image_classification.automatic import fill_in_model
from worker.tasks.image_classification.data import decode_for_model
from worker.tasks.image_classification.engine import find_engine, leave_unmeasured
from worker.tasks.image_classification.exported_onnx import make_onnx_exportable
from worker.tasks.image_classification.previews import build_image_preview
from worker.tasks.image_classification.resolve import resolve_spec
from worker.tasks.image_classification.targets import (
    build_loss,
    make_image_exportable,
    make_up_images,
)
from worker.tasks.imagery.opening import (
    count_train,
    lay_out,
    locate_images,
    open_pixels,
    put_on_device,
)
from worker.tasks.imagery.resolve import DataFacts, warn_of_changes
from worker.trainer.autotune.batch_size import SMALLEST, list_candidates, spread_over_ranks
from worker.trainer.autotune.opened import measure_open
from worker.trainer.autotune.probing import Probe
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.devices import autocast_of, device_facts
from worker.trainer.images.batches import TrainBatches
from worker.trainer.images.decode.decoded_set import DecodedImages
from worker.trainer.images.image_set import ImageSet
from worker.trainer.images.rows.read_ahead import DEPTH
from worker.trainer.models import architecture_of, build_model
from worker.trainer.models.backbone import build_freezer
from worker.trainer.models.builtin.cifar_fast import CifarFast, spread
from worker.trainer.models.from_code import build_own_loss
from worker.trainer.models.initial_weights import (
    Start,
    build_started,
    complete_model,
    find_start,
)
from worker.trainer.models.trial_pass import try_one_sample
from worker.trainer.optim.losses import Loss
from worker.trainer.plan import plan_training
from worker.trainer.precision import deny
from worker.trainer.scoring.evaluate import evaluate_classifier
from worker.trainer.scoring.labels import LABEL_METRICS, evaluate_labels, is_better_labeller
from worker.trainer.scoring.validation import build_evaluation, is_better_classifier
from worker.trainer.setup import TrainingSetup

EVALUATION_BATCH = 256


@dataclass(frozen=True)
class _Opened:
    """A job whose data are open and whose spec is resolved; measurements follow.

    Attributes:
        chosen: Why `model: auto` became what it is; empty if the user named the model.
    """

    order: Order
    device: torch.device
    event_log: EventLog
    index: DatasetIndex
    start: Start
    resolved: ImageClassificationSpec
    chosen: Mapping[str, str]
    decoded: DecodedImages
    images: ImageSet
    remembered: Remembered

    @property
    def num_classes(self) -> int:
        return len(self.index.classes)

    @property
    def architecture(self) -> dict[str, Any]:
        return architecture_of(self.resolved.model, num_classes=self.num_classes)


def prepare(
    order: Order,
    spec: JobSpec,
    *,
    device: torch.device,
    event_log: EventLog,
    reading: str | None = None,  # noqa: ARG001 - the spec alone decides how images are read
) -> TrainingSetup:
    """Open the data, resolve the spec, and build the model on the device.

    Raises:
        TrainingFailed: the data or the spec cannot be trained.
    """
    assert isinstance(spec, ImageClassificationSpec)
    job = _open_job(order, spec, device=device, event_log=event_log)
    model = _build_network(job)
    loss = _build_loss(job.resolved, job.start, job.images, num_classes=job.num_classes)
    if job.start.onnx is not None:
        job.resolved.training.compile = "off"
    engine = find_engine(job.resolved, model, order)
    _measure(job, model, loss, is_precision_open=spec.training.precision == "auto")
    setup = _assemble(job, model, loss, engine)
    if engine is not None:
        compile_engine(setup, engine, event_log)
    return setup


def _open_job(
    order: Order, spec: ImageClassificationSpec, *, device: torch.device, event_log: EventLog
) -> _Opened:
    """Open the data and the initial weights, and resolve the spec with them."""
    located = locate_images(order, DatasetIndex)
    index = located.index
    _refuse_labels(spec, index)
    start = find_start(spec.model, order, say=event_log.message)
    spec = leave_unmeasured(spec).model_copy(update={"model": start.model})
    resolved = _resolve(spec, index, device=device, denied=order.denied, event_log=event_log)
    num_train = count_train(index, resolved.training)
    chosen = fill_in_model(resolved, order, num_train=num_train, device=device, event_log=event_log)
    choose_batch(resolved, num_train=num_train)
    resolved.model = complete_model(resolved.model, start, num_classes=len(index.classes))
    decoded = decode_for_model(resolved, located, event_log=event_log)
    images = open_pixels(
        ImageSet, decoded, index, order, resolved.training, device=device, event_log=event_log
    )
    remembered = Remembered.on(device, order.paths.cache_dir)
    return _Opened(
        order, device, event_log, index, start, resolved, chosen, decoded, images, remembered
    )


def _build_network(job: _Opened) -> nn.Module:
    """Build the network with its initial weights on the device."""
    resolved, training, images = job.resolved, job.resolved.training, job.images
    torch.manual_seed(training.seed)
    say = job.event_log.message
    model = build_started(resolved.model, job.start, num_classes=job.num_classes, say=say)
    num_train, num_ranks = images.num("train"), job.order.num_ranks
    if may_step_with_one(training, num_train=num_train, num_ranks=num_ranks, device=job.device):
        try_one_sample(model, resolved.model)
    if isinstance(model, CifarFast) and resolved.model.pretrained is None:
        model.fit(images.get_batch(spread(images.rows["train"], image_size=images.size))[0].cpu())
    return put_on_device(model, training, job.device)


def _measure(job: _Opened, model: nn.Module, loss: Loss, *, is_precision_open: bool) -> None:
    """Measure what `auto` left open."""
    resolved, images = job.resolved, job.images
    make_batch = partial(
        make_up_images,
        resolved.model.options,
        job.num_classes,
        images.memory_format,
        job.device,
        has_labels=images.has_labels,
    )
    measure_open(
        Probe(model, loss, make_batch, resolved.training, job.device),
        job.order,
        num_train=images.num("train"),
        is_precision_open=is_precision_open and resolved.resources.engine == "torch",
        # The number of classes hardly changes a step's time.
        key=architecture_of(resolved.model, num_classes=0),
        remembered=job.remembered,
        event_log=job.event_log,
    )


def _assemble(job: _Opened, model: nn.Module, loss: Loss, engine: Any) -> TrainingSetup:
    """Put the parts of a prepared job together."""
    images, training, facts = job.images, job.resolved.training, job.decoded.facts
    batches = _build_batches(job)
    autocast = partial(autocast_of, job.device, training.precision)
    num_classes, say = job.num_classes, job.event_log.message
    return TrainingSetup(
        spec=job.resolved,
        plan=plan_training(training, num_train=images.num("train")),
        model=model,
        batches=batches,
        loss=loss,
        evaluate=build_evaluation(
            engine or model,
            images,
            evaluate_labels if images.has_labels else evaluate_classifier,
            batch_size=EVALUATION_BATCH,
            autocast=autocast,
            names=LABEL_METRICS if images.has_labels else ("val/loss", "val/accuracy"),
        ),
        is_better=is_better_labeller if images.has_labels else is_better_classifier,
        make_exportable=_choose_exportable(job, model),
        counts={split: images.num(split) for split in ("train", "validation", "test")},
        data_bytes=images.size_bytes,
        close=batches.close,
        lay_out=partial(lay_out, model, images),
        freezer=build_freezer(model, epochs=training.freeze_backbone_epochs, say=say),
        preview=build_image_preview(
            model, images, mean=facts.mean, std=facts.std, autocast=autocast
        ),
        smaller_models=_list_smaller_models(job.resolved, num_classes, device=job.device),
        forward=engine,
        facts={**job.chosen, **describe_engine(engine)},
    )


def _choose_exportable(job: _Opened, model: nn.Module) -> Callable[[], Exportable]:
    """Return what exports the network: that of the user's ONNX file, or of any other."""
    size, facts = job.images.size, job.decoded.facts
    if job.start.onnx is not None:
        return partial(make_onnx_exportable, model, file=job.start.onnx, image_size=size)
    return partial(
        make_image_exportable,
        job.index,
        model,
        mean=facts.mean,
        std=facts.std,
        image_size=size,
        architecture=job.architecture,
    )


def _refuse_labels(spec: ImageClassificationSpec, index: DatasetIndex) -> None:
    if index.labels_separator is None:
        return
    if spec.model.source == "onnx" or spec.model.loss is not None:
        what = "an ONNX file" if spec.model.source == "onnx" else "a network with its own loss"
        message = (
            f"{what} cannot be trained on images with several labels; name another model, or "
            "use a folder for each class"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/model/source")


def _build_loss(
    resolved: ImageClassificationSpec, start: Start, images: ImageSet, *, num_classes: int
) -> Loss:
    """Build the spec's loss, or take the user's own."""
    if start.code is None or resolved.model.loss is None:
        return build_loss(resolved.training, images)
    return build_own_loss(resolved.model, start.code, num_classes=num_classes)


def _list_smaller_models(
    spec: ImageClassificationSpec, num_classes: int, *, device: torch.device
) -> dict[str, Callable[[], nn.Module]]:
    """Return the network to suggest if training takes long; none if it is already the job's."""
    has_weights = spec.model.pretrained is not None or spec.model.file is not None
    if spec.model.name in {SMALL_MODEL, GREY_MODEL} or has_weights:
        return {}
    small = Model(name=SMALL_MODEL, options=spec.model.options)
    return {SMALL_MODEL: lambda: build_model(small, num_classes=num_classes).to(device)}


def _build_batches(job: _Opened) -> TrainBatches:
    images, training, remembered = job.images, job.resolved.training, job.remembered
    assert training.batch_size != "auto"
    key = {"image": images.image_shape, "batch": training.batch_size, "key": job.architecture}
    return TrainBatches(
        images,
        batch_size=training.batch_size,
        augment=training.augment,
        seed=training.seed,
        depth=remembered.find("read_ahead", key) or DEPTH,
        on_depth=partial(remembered.save, "read_ahead", key),
    )


def may_step_with_one(
    training: Training, *, num_train: int, num_ranks: int, device: torch.device
) -> bool:
    """Return whether batch norm may get a single sample, before the batch size is chosen.

    Args:
        training: Training section; its batch is at most the training split.
        num_train: Samples in the training split.
        num_ranks: Ranks that share a batch.
        device: Device of this rank; on GPUs batch norm uses the samples of all ranks
            (`worker.trainer.optim.averaging`).
    """
    shares = []
    if training.batch_size == "auto":
        if len(list_candidates(num_train)) > 1:
            # A single device measures batch sizes, starting with the smallest.
            shares.append(SMALLEST)
        least = spread_over_ranks(SMALLEST, num_ranks=num_ranks, num_train=num_train)
        batch_size = min(least, num_train)
    else:
        batch_size = training.batch_size
    if num_ranks == 1 or device.type != "cuda":
        shares.append(batch_size // num_ranks)
    return any(share // training.accumulation < 2 for share in shares)


def _resolve(
    spec: ImageClassificationSpec,
    index: DatasetIndex,
    *,
    device: torch.device,
    denied: Mapping[str, str],
    event_log: EventLog,
) -> ImageClassificationSpec:
    num_train = count_train(index, spec.training)
    data = DataFacts(index.image_size, index.channels, num_train=num_train)
    resolved = resolve_spec(spec, data=data, device=deny(device_facts(device), denied))
    warn_of_changes(spec.training, resolved.training, kind=device.type, event_log=event_log)
    return resolved
