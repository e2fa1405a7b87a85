"""Prepares a job that trains a segmenter.

Shapes: B batch, C channels, S side in pixels.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from redkiln.spec.job_spec import JobSpec
from redkiln.tasks import semantic_segmentation
from redkiln.tasks.semantic_segmentation import SemanticSegmentationSpec
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.tasks.imagery.opening import count_train, lay_out, put_on_device
from worker.tasks.imagery.resolve import DataFacts, warn_of_changes
from worker.tasks.semantic_segmentation.data import locate_masks, open_samples
from worker.tasks.semantic_segmentation.exported import make_exportable
from worker.tasks.semantic_segmentation.resolve import resolve_spec
from worker.trainer.autotune.opened import measure_open
from worker.trainer.autotune.probing import Probe
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.dense.library import LIBRARY
from worker.trainer.dense.start import find_dense_start
from worker.trainer.devices import autocast_of, device_facts
from worker.trainer.images.decode.facts import DecodedFacts
from worker.trainer.images.rows.read_ahead import DEPTH
from worker.trainer.inputs import Batch
from worker.trainer.plan import plan_training
from worker.trainer.precision import deny
from worker.trainer.scoring.validation import build_evaluation
from worker.trainer.segmentation.batches import SegmentationBatches
from worker.trainer.segmentation.evaluate import (
    SEGMENTATION_METRICS,
    evaluate_segmenter,
    is_better_segmenter,
)
from worker.trainer.segmentation.loss import SegmentationLoss, build_segmentation_loss
from worker.trainer.segmentation.network import SegmenterNetwork
from worker.trainer.segmentation.preview import build_segmentation_preview
from worker.trainer.segmentation.samples import SegmentationSamples
from worker.trainer.segmentation.segmenter import Segmenter
from worker.trainer.setup import TrainingSetup

EVALUATION_BATCH = 32
SMALLEST_SEGMENTER = "unet-nano"


def prepare(
    order: Order,
    spec: JobSpec,
    *,
    device: torch.device,
    event_log: EventLog,
    reading: str | None = None,  # noqa: ARG001 - the spec alone decides how images are read
) -> TrainingSetup:
    """Open the data, resolve the spec, and build the network on the device.

    Raises:
        TrainingFailed: the data or the spec cannot be trained.
    """
    assert isinstance(spec, SemanticSegmentationSpec)
    located = locate_masks(order)
    index = located.index
    start = find_dense_start(spec.model, order, say=event_log.message)
    spec = spec.model_copy(update={"model": start.model})
    data = DataFacts(index.image_size, index.channels, count_train(index, spec.training))
    resolved = resolve_spec(spec, data=data, device=deny(device_facts(device), order.denied))
    resolved.model = complete_model(resolved.model, start.config, num_classes=len(index.classes))
    warn_of_changes(spec.training, resolved.training, kind=device.type, event_log=event_log)
    decoded, samples = open_samples(order, resolved, located, device=device, event_log=event_log)
    torch.manual_seed(resolved.training.seed)
    segmenter = build_segmenter(resolved.model, num_classes=len(index.classes))
    start.load_into(segmenter, say=event_log.message)
    put_on_device(segmenter, resolved.training, device)
    loss = build_segmentation_loss(
        resolved.training, classes=index.classes, counts=samples.count_train(), device=device
    )
    remembered = Remembered.on(device, order.paths.cache_dir)
    measure_open(
        Probe(segmenter, loss, partial(_make_up_batch, samples), resolved.training, device),
        order,
        num_train=data.num_train,
        is_precision_open=spec.training.precision == "auto",
        key={**architecture_of(resolved.model, index.classes), "classes": len(index.classes)},
        remembered=remembered,
        event_log=event_log,
    )
    return _assemble(resolved, segmenter, loss, samples, decoded.facts, remembered)


def complete_model(
    model: semantic_segmentation.Segmenter, config: Mapping[str, Any] | None, *, num_classes: int
) -> semantic_segmentation.Segmenter:
    """Return a model with its whole configuration, once its sizes are known.

    Args:
        model: Model of a resolved spec.
        config: Configuration that belongs to pretrained weights; None without any.
        num_classes: Number of classes.

    Raises:
        TrainingFailed: the configuration is not valid.
    """
    if model.source != LIBRARY:
        return model
    from worker.trainer.segmentation.from_transformers import complete_config

    whole = complete_config(model, config, num_classes=num_classes)
    return model.model_copy(update={"config": whole, "name": whole["model_type"]})


def build_segmenter(
    model: semantic_segmentation.Segmenter, *, num_classes: int
) -> SegmenterNetwork:
    """Build a new network from a resolved spec; its weights follow torch's global generator.

    Raises:
        TrainingFailed: the library that it comes from cannot build it.
    """
    if model.source == LIBRARY:
        from worker.trainer.segmentation.from_transformers import LibrarySegmenter

        return LibrarySegmenter(model, num_classes=num_classes)
    options = model.options
    assert options.image_size != "auto"
    assert options.channels != "auto"
    return Segmenter(
        model.name,
        num_classes=num_classes,
        channels=options.channels,
        image_size=options.image_size,
    )


def architecture_of(model: semantic_segmentation.Segmenter, classes: list[str]) -> dict[str, Any]:
    """Return everything that decides a network's graph, as JSON."""
    return {
        "name": model.name,
        "image_size": model.options.image_size,
        "channels": model.options.channels,
        "classes": len(classes),
        **({"config": model.config} if model.source == LIBRARY else {}),
    }


def _assemble(
    resolved: SemanticSegmentationSpec,
    segmenter: SegmenterNetwork,
    loss: SegmentationLoss,
    samples: SegmentationSamples,
    facts: DecodedFacts,
    remembered: Remembered,
) -> TrainingSetup:
    """Put the parts of a prepared job together."""
    training, images = resolved.training, samples.images
    architecture = architecture_of(resolved.model, images.classes)
    batches = _build_batches(samples, resolved, key=architecture, remembered=remembered)
    autocast = partial(autocast_of, images.device, training.precision)
    return TrainingSetup(
        spec=resolved,
        plan=plan_training(training, num_train=images.num("train")),
        model=segmenter,
        batches=batches,
        loss=loss,
        evaluate=build_evaluation(
            segmenter,
            samples,
            partial(evaluate_segmenter, loss=loss),
            batch_size=EVALUATION_BATCH,
            autocast=autocast,
            names=SEGMENTATION_METRICS,
        ),
        is_better=is_better_segmenter,
        make_exportable=partial(
            make_exportable,
            segmenter,
            mean=facts.mean,
            std=facts.std,
            architecture=architecture,
        ),
        counts={split: samples.num(split) for split in ("train", "validation", "test")},
        data_bytes=images.size_bytes,
        close=batches.close,
        lay_out=partial(lay_out, segmenter, images),
        preview=build_segmentation_preview(segmenter, samples, autocast=autocast),
        smaller_models=_list_smaller_models(resolved, len(images.classes), device=images.device),
    )


def _build_batches(
    samples: SegmentationSamples,
    resolved: SemanticSegmentationSpec,
    *,
    key: Mapping[str, Any],
    remembered: Remembered,
) -> SegmentationBatches:
    training = resolved.training
    assert training.batch_size != "auto"
    key = {"batch": training.batch_size, "segmenter": key}
    return SegmentationBatches(
        samples,
        batch_size=training.batch_size,
        augment=training.augment,
        seed=training.seed,
        depth=remembered.find("read_ahead", key) or DEPTH,
        on_depth=partial(remembered.save, "read_ahead", key),
    )


def _make_up_batch(samples: SegmentationSamples, num: int) -> Batch:
    """Return noise in the shape of the job's images, with random masks."""
    images = samples.images
    noise = torch.randn(num, *images.image_shape)
    masks = torch.randint(len(images.classes), (num, images.size, images.size), dtype=torch.uint8)
    device = images.device
    return noise.to(device=device, memory_format=images.memory_format), masks.to(device)


def _list_smaller_models(
    spec: SemanticSegmentationSpec, num_classes: int, *, device: torch.device
) -> dict[str, Callable[[], nn.Module]]:
    """Return the network to suggest if training takes long; none if it is already the job's."""
    model = spec.model
    if model.name == SMALLEST_SEGMENTER or model.pretrained is not None or model.source == LIBRARY:
        return {}
    small = spec.model.model_copy(update={"name": SMALLEST_SEGMENTER})
    return {SMALLEST_SEGMENTER: lambda: build_segmenter(small, num_classes=num_classes).to(device)}
