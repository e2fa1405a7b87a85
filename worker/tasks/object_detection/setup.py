"""Prepares a job that trains a detector.

Shapes: B batch, C channels, S side in pixels.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from redkiln.spec.job_spec import JobSpec
from redkiln.tasks.object_detection import DetectorSpec
from worker.export.exportable import Exportable
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.tasks.imagery.opening import count_train, lay_out, put_on_device
from worker.tasks.imagery.resolve import DataFacts, warn_of_changes
from worker.tasks.object_detection.building import (
    architecture_of,
    build_detector,
    choose_samples,
    complete_model,
    loss_builder,
    shape_batch,
    shape_batches,
)
from worker.tasks.object_detection.data import locate_objects, open_samples
from worker.tasks.object_detection.exported import make_exportable
from worker.tasks.object_detection.resolve import resolve_spec
from worker.trainer.autotune.opened import measure_open
from worker.trainer.autotune.probing import Probe
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.dense.library import LIBRARY
from worker.trainer.dense.start import find_dense_start
from worker.trainer.detection.batches import DetectionBatches
from worker.trainer.detection.evaluate import (
    DETECTION_METRICS,
    evaluate_detector,
    is_better_detector,
)
from worker.trainer.detection.network import DetectorNetwork
from worker.trainer.detection.objects import Objects
from worker.trainer.detection.preview import build_detection_preview
from worker.trainer.detection.samples import DetectionSamples
from worker.trainer.devices import autocast_of, device_facts
from worker.trainer.images.rows.read_ahead import DEPTH
from worker.trainer.inputs import Batch
from worker.trainer.insight.preview import ShowSamples
from worker.trainer.plan import Plan, plan_training
from worker.trainer.precision import deny
from worker.trainer.scoring.validation import build_evaluation
from worker.trainer.setup import TrainingSetup

EVALUATION_BATCH = 64
MADE_UP_OBJECTS = 8
"""Objects of an image of noise, for measurements."""
SMALLEST_DETECTOR = "dense-nano"


@dataclass(frozen=True)
class Parts:
    """What differs between tasks that find objects.

    Attributes:
        objects: Class of the objects.
        build: Builds a new network from a resolved model.
        describe: Returns everything that decides a network's graph, as JSON.
        evaluate: Scores the network, with its loss.
        metrics: Names of the metrics of the validation split.
        batch_size: Images that are scored at once.
        make_exportable: Makes the model to export.
        preview: Builds the function that shows samples.
    """

    objects: type[Objects]
    build: Callable[..., DetectorNetwork]
    describe: Callable[..., dict[str, Any]]
    evaluate: Callable[..., Callable[..., dict[str, float] | None]]
    metrics: tuple[str, ...]
    batch_size: int
    make_exportable: Callable[..., Exportable]
    preview: Callable[..., ShowSamples]


BOXES = Parts(
    objects=Objects,
    build=build_detector,
    describe=architecture_of,
    evaluate=lambda _samples, loss: partial(evaluate_detector, loss=loss),
    metrics=DETECTION_METRICS,
    batch_size=EVALUATION_BATCH,
    make_exportable=make_exportable,
    preview=build_detection_preview,
)


def prepare(
    order: Order,
    spec: JobSpec,
    *,
    device: torch.device,
    event_log: EventLog,
    reading: str | None = None,  # noqa: ARG001 - the spec alone decides how images are read
    parts: Parts = BOXES,
) -> TrainingSetup:
    """Open the data, resolve the spec, and build the network on the device.

    Raises:
        TrainingFailed: the data or the spec cannot be trained.
    """
    assert isinstance(spec, DetectorSpec)
    located = locate_objects(order)
    index = located.index
    start = find_dense_start(spec.model, order, say=event_log.message)
    is_precision_open = spec.training.precision == "auto"
    spec = spec.model_copy(update={"model": start.model})
    num_train = count_train(index, spec.training)
    resolved = _resolve(
        spec,
        DataFacts(index.image_size, index.channels, num_train),
        device=device,
        denied=order.denied,
        event_log=event_log,
    )
    num_classes = len(index.classes)
    resolved.model = complete_model(resolved.model, start.config, num_classes=num_classes)
    training, architecture = resolved.training, parts.describe(resolved.model, index.classes)
    decoded, samples = open_samples(
        order, resolved, located, parts.objects, device=device, event_log=event_log
    )
    torch.manual_seed(training.seed)
    detector = parts.build(resolved.model, num_classes=num_classes)
    start.load_into(detector, say=event_log.message)
    put_on_device(detector, training, device)
    build_loss = loss_builder(detector, samples)
    loss = build_loss()
    remembered = Remembered.on(device, order.paths.cache_dir)
    make_batch = partial(_make_up_batch, detector, samples, device)
    measure_open(
        Probe(detector, loss, make_batch, training, device),
        order,
        num_train=num_train,
        is_precision_open=is_precision_open,
        key={**architecture, "classes": 0},
        remembered=remembered,
        event_log=event_log,
    )
    plan = plan_training(training, num_train=num_train)
    batches = _build_batches(samples, resolved, plan, key=architecture, remembered=remembered)
    autocast = partial(autocast_of, device, training.precision)
    return TrainingSetup(
        spec=resolved,
        plan=plan,
        model=detector,
        batches=shape_batches(detector, batches),
        loss=loss,
        evaluate=build_evaluation(
            detector,
            choose_samples(detector, samples),
            parts.evaluate(samples, build_loss(is_equal=True)),
            batch_size=parts.batch_size,
            autocast=autocast,
            names=parts.metrics,
        ),
        is_better=is_better_detector,
        make_exportable=partial(
            parts.make_exportable,
            detector,
            mean=decoded.facts.mean,
            std=decoded.facts.std,
            architecture=architecture,
        ),
        counts={split: samples.num(split) for split in ("train", "validation", "test")},
        data_bytes=samples.images.size_bytes,
        close=batches.close,
        lay_out=partial(lay_out, detector, samples.images),
        preview=parts.preview(detector, samples, autocast=autocast),
        backbone_lr=training.backbone_lr,
        smaller_models=_list_smaller_models(resolved, len(index.classes), device=device),
    )


def _build_batches(
    samples: DetectionSamples,
    resolved: DetectorSpec,
    plan: Plan,
    *,
    key: Mapping[str, Any],
    remembered: Remembered,
) -> DetectionBatches:
    training = resolved.training
    assert training.batch_size != "auto"
    key = {"batch": training.batch_size, "detector": key}
    return DetectionBatches(
        samples.images,
        samples.objects,
        batch_size=training.batch_size,
        augment=training.augment,
        seed=training.seed,
        epochs=plan.epochs,
        depth=remembered.find("read_ahead", key) or DEPTH,
        on_depth=partial(remembered.save, "read_ahead", key),
    )


def _make_up_batch(
    detector: DetectorNetwork, samples: DetectionSamples, device: torch.device, num: int
) -> Batch:
    """Return noise in the shape of the job's images, with some objects."""
    images, size = samples.images, samples.images.size
    noise = torch.randn(num, *images.image_shape)
    corners = torch.rand(num, MADE_UP_OBJECTS, 2) * size / 2
    sides = (0.1 + 0.4 * torch.rand(num, MADE_UP_OBJECTS, 2)) * size
    labels = torch.randint(len(images.classes), (num, MADE_UP_OBJECTS, 1)).float()
    targets = samples.objects.complete(torch.cat([labels, corners, corners + sides], dim=-1))
    noise = noise.to(device=device, memory_format=images.memory_format)
    return shape_batch(detector, noise, targets.to(device))


def _list_smaller_models(
    spec: DetectorSpec, num_classes: int, *, device: torch.device
) -> dict[str, Callable[[], nn.Module]]:
    """Return the network to suggest if training takes long; none if it is already the job's."""
    model = spec.model
    if model.name == SMALLEST_DETECTOR or model.pretrained is not None or model.source == LIBRARY:
        return {}
    small = spec.model.model_copy(update={"name": SMALLEST_DETECTOR})
    return {SMALLEST_DETECTOR: lambda: build_detector(small, num_classes=num_classes).to(device)}


def _resolve(
    spec: DetectorSpec,
    data: DataFacts,
    *,
    device: torch.device,
    denied: Mapping[str, str],
    event_log: EventLog,
) -> DetectorSpec:
    resolved = resolve_spec(spec, data=data, device=deny(device_facts(device), denied))
    warn_of_changes(spec.training, resolved.training, kind=device.type, event_log=event_log)
    return resolved
