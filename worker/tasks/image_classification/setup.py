"""The task `image-classification`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from redkiln.datasets import DatasetIndex
from redkiln.failure import FailureCode
from redkiln.spec.job_spec import JobSpec, Training
from redkiln.tasks.image_classification import (
    ImageClassificationSpec,
    Model,
)
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.tasks.image_classification.automatic import GREY_MODEL, SMALL_MODEL, fill_in_model
from worker.tasks.image_classification.data import decode_for_model
from worker.tasks.image_classification.engine import (
    choose_batch,
    compile_engine,
    describe_engine,
    find_engine,
    leave_unmeasured,
)
from worker.tasks.image_classification.exported_onnx import make_onnx_exportable
from worker.tasks.image_classification.previews import build_image_preview
from worker.tasks.image_classification.resolve import DataFacts, resolve_spec
from worker.tasks.image_classification.targets import (
    build_loss,
    make_image_exportable,
    make_up_images,
)
from worker.trainer.autotune.batch_size import SMALLEST, list_candidates, spread_over_ranks
from worker.trainer.autotune.layout import FORMATS, choose_memory_format
from worker.trainer.autotune.precision_trial import tune_precision
from worker.trainer.autotune.probing import Probe
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.autotune.sizing import tune_batch_size
from worker.trainer.devices import autocast_of, device_facts
from worker.trainer.images.batches import TrainBatches
from worker.trainer.images.decode.decoded_set import DecodedImages
from worker.trainer.images.image_set import ImageSet
from worker.trainer.images.located import LocatedDataset, locate_dataset
from worker.trainer.images.pixel_set import split_rows
from worker.trainer.images.rows.read_ahead import DEPTH
from worker.trainer.models import architecture_of, build_model
from worker.trainer.models.backbone import build_freezer
from worker.trainer.models.cifar_fast import CifarFast, spread
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
from worker.trainer.precision import deny, list_contenders
from worker.trainer.scoring.evaluate import evaluate_classifier
from worker.trainer.scoring.labels import LABEL_METRICS, evaluate_labels, is_better_labeller
from worker.trainer.scoring.validation import build_evaluation, is_better_classifier
from worker.trainer.setup import TrainingSetup

EVALUATION_BATCH = 256


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
    located = locate_dataset(order, DatasetIndex)
    if not located.index.splits["test"]:
        message = "the data set has no test images; add some, because training scores the model"
        raise TrainingFailed(FailureCode.BAD_INPUT, message)
    _refuse_labels(spec, located)
    start = find_start(spec.model, order, say=event_log.message)
    spec = leave_unmeasured(spec)
    is_precision_open = spec.training.precision == "auto"
    spec = spec.model_copy(update={"model": start.model})
    resolved = _resolve(spec, located, device=device, denied=order.denied, event_log=event_log)
    num_classes = len(located.index.classes)
    chosen = fill_in_model(
        resolved,
        order,
        num_train=_count_train(located, resolved),
        device=device,
        event_log=event_log,
    )
    choose_batch(resolved, num_train=_count_train(located, resolved))
    resolved.model = complete_model(resolved.model, start, num_classes=num_classes)
    training = resolved.training
    decoded, images = _open_images(order, resolved, located, device=device, event_log=event_log)
    num_train = images.num("train")
    torch.manual_seed(training.seed)
    model = build_started(resolved.model, start, num_classes=num_classes, say=event_log.message)
    if may_step_with_one(training, num_train=num_train, num_ranks=order.num_ranks, device=device):
        try_one_sample(model, resolved.model)
    if isinstance(model, CifarFast) and resolved.model.pretrained is None:
        model.fit(images.get_batch(spread(images.rows["train"], image_size=images.size))[0].cpu())
    assert training.memory_format != "auto"
    memory_format = FORMATS[training.memory_format]
    model = model.to(device=device, memory_format=memory_format)  # type: ignore[call-overload]
    loss = _build_loss(resolved, start, images, num_classes=num_classes)
    architecture = architecture_of(resolved.model, num_classes=num_classes)
    if start.onnx is not None:
        resolved.training.compile = "off"
    engine = find_engine(resolved, model, cache_dir=order.paths.cache_dir)
    remembered = Remembered.on(device, order.paths.cache_dir)
    _tune(
        resolved,
        Probe(
            model,
            loss,
            partial(
                make_up_images,
                resolved.model.options,
                num_classes,
                memory_format,
                device,
                has_labels=images.has_labels,
            ),
            training,
            device,
        ),
        order,
        num_train=num_train,
        is_precision_open=is_precision_open,
        remembered=remembered,
        event_log=event_log,
    )
    batches = _build_batches(images, resolved, architecture=architecture, remembered=remembered)
    setup = TrainingSetup(
        spec=resolved,
        plan=plan_training(training, num_train=num_train),
        model=model,
        batches=batches,
        loss=loss,
        evaluate=build_evaluation(
            engine or model,
            images,
            evaluate_labels if images.has_labels else evaluate_classifier,
            batch_size=EVALUATION_BATCH,
            autocast=partial(autocast_of, device, training.precision),
            names=LABEL_METRICS if images.has_labels else ("val/loss", "val/accuracy"),
        ),
        is_better=is_better_labeller if images.has_labels else is_better_classifier,
        make_exportable=partial(
            make_image_exportable,
            located.index,
            model,
            mean=decoded.facts.mean,
            std=decoded.facts.std,
            image_size=images.size,
            architecture=architecture,
        )
        if start.onnx is None
        else partial(make_onnx_exportable, model, file=start.onnx, image_size=images.size),
        counts={split: images.num(split) for split in ("train", "validation", "test")},
        data_bytes=images.size_bytes,
        close=batches.close,
        lay_out=partial(_lay_out, model, images),
        freezer=build_freezer(model, epochs=training.freeze_backbone_epochs, say=event_log.message),
        preview=build_image_preview(
            model,
            images,
            mean=decoded.facts.mean,
            std=decoded.facts.std,
            autocast=partial(autocast_of, device, training.precision),
        ),
        smaller_models=_list_smaller_models(resolved, num_classes, device=device),
        forward=engine,
        facts={**chosen, **describe_engine(engine)},
    )
    if engine is not None:
        compile_engine(setup, engine, event_log)
    return setup


def _refuse_labels(spec: ImageClassificationSpec, located: LocatedDataset[DatasetIndex]) -> None:
    if located.index.labels_separator is None:
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


def _open_images(
    order: Order,
    resolved: ImageClassificationSpec,
    located: LocatedDataset[DatasetIndex],
    *,
    device: torch.device,
    event_log: EventLog,
) -> tuple[DecodedImages, ImageSet]:
    """Decode the images once, and open them in the layout that suits the device."""
    training = resolved.training
    decoded = decode_for_model(resolved, located, event_log=event_log)
    if training.memory_format == "auto":
        training.memory_format = choose_memory_format(
            device_facts(device, patches=order.patches), precision=training.precision
        )
    images = ImageSet(
        decoded,
        located.index,
        validation_fraction=training.validation_fraction,
        device=device,
        memory_format=FORMATS[training.memory_format],
        budget_bytes=order.limits.data_memory_bytes,
        say=event_log.message,
    )
    return decoded, images


def _tune(
    resolved: ImageClassificationSpec,
    probe: Probe,
    order: Order,
    *,
    num_train: int,
    is_precision_open: bool,
    remembered: Remembered,
    event_log: EventLog,
) -> None:
    """Measure what `auto` left open: the precision and the batch size."""
    # The number of classes hardly changes a step's time.
    key = architecture_of(resolved.model, num_classes=0)
    if is_precision_open:
        assert probe.training.precision != "auto"
        facts = deny(device_facts(probe.device), order.denied)
        tune_precision(
            probe,
            list_contenders(facts, resolved=probe.training.precision),
            num_train=num_train,
            key=key,
            remembered=remembered,
            event_log=event_log,
        )
    tune_batch_size(
        probe,
        num_train=num_train,
        key=key,
        remembered=remembered,
        event_log=event_log,
        num_ranks=order.num_ranks,
    )


def _build_batches(
    images: ImageSet,
    resolved: ImageClassificationSpec,
    *,
    architecture: dict[str, Any],
    remembered: Remembered,
) -> TrainBatches:
    training = resolved.training
    assert training.batch_size != "auto"
    key = {"image": images.image_shape, "batch": training.batch_size, "key": architecture}
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


def _lay_out(model: nn.Module, images: ImageSet, memory_format: torch.memory_format) -> None:
    model.to(memory_format=memory_format)  # type: ignore[call-overload]
    images.memory_format = memory_format


def _count_train(located: LocatedDataset[DatasetIndex], spec: ImageClassificationSpec) -> int:
    rows = split_rows(located.index, validation_fraction=spec.training.validation_fraction)
    return len(rows["train"])


def _resolve(
    spec: ImageClassificationSpec,
    located: LocatedDataset[DatasetIndex],
    *,
    device: torch.device,
    denied: Mapping[str, str],
    event_log: EventLog,
) -> ImageClassificationSpec:
    index = located.index
    num_train = _count_train(located, spec)
    data = DataFacts(index.image_size, index.channels, num_train=num_train)
    resolved = resolve_spec(spec, data=data, device=deny(device_facts(device), denied))
    asked, taken = spec.training.batch_size, resolved.training.batch_size
    if asked not in ("auto", taken):
        message = f"batch_size is {taken}, not {asked}: the training split has no more images"
        event_log.warning("batch_size_reduced", message)
    if resolved.training.precision == "fp16" and device.type == "cpu":
        message = "fp16 on a CPU takes many times as long as fp32; use fp32, or auto"
        event_log.warning("fp16_on_cpu", message)
    return resolved
