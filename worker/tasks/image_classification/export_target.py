"""Opens a trained image classifier with the images that its export is scored on."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.datasets import DatasetIndex, Sample
from redkiln.predict.pixels import PixelFormat
from redkiln.spec.job_spec import JobSpec
from redkiln.spec.own_code import CODE
from redkiln.tasks.image_classification import ImageClassificationSpec
from worker.export.exportable import Exportable
from worker.export.target import ExportTarget
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.tasks.image_classification.baselines import list_baselines
from worker.tasks.image_classification.card import write_image_texts
from worker.tasks.image_classification.data import decode_for_model
from worker.tasks.image_classification.embedded import SIDES, EmbeddedPhotos
from worker.tasks.image_classification.exported import preprocessing_of
from worker.tasks.image_classification.exported_onnx import make_onnx_exportable
from worker.tasks.image_classification.targets import build_scoring, make_image_exportable
from worker.tasks.imagery.exported import ImageSamples
from worker.tasks.imagery.opening import list_rows
from worker.trainer.images.decode.decoded_set import DecodedImages
from worker.trainer.images.image_set import read_labels
from worker.trainer.images.located import locate_dataset
from worker.trainer.models import architecture_of, build_model
from worker.trainer.models.from_code import build_from_code, open_code
from worker.trainer.models.from_onnx import build_from_onnx, open_onnx


def open_target(
    order: Order,
    spec: JobSpec,
    *,
    weights: Mapping[str, torch.Tensor],
    event_log: EventLog,
    reading: str | None = None,  # noqa: ARG001 - the spec alone decides how images are read
) -> ExportTarget:
    """Return the trained network with the images that it is scored on.

    Raises:
        TrainingFailed: the data set is missing or has changed.
    """
    assert isinstance(spec, ImageClassificationSpec)
    located = locate_dataset(order, DatasetIndex)
    decoded = decode_for_model(spec, located, event_log=event_log)
    index = located.index
    rows = list_rows(index, spec.training)
    exportable = _open_exportable(order, spec, index, decoded, weights)
    preprocessing = preprocessing_of(
        spec.model.options,
        decoded.facts,
        names=(next(iter(exportable.examples)), exportable.output),
        labels_separator=index.labels_separator,
        is_embedded=spec.model.interface == "embedded",
    )
    samples = index.splits["train"] + index.splits["test"]
    pictures, targets = ImageSamples(decoded.images), read_labels(index)
    exportable, scoring = build_scoring(
        index, exportable, pictures, targets, validation=rows["validation"]
    )
    return ExportTarget(
        spec=spec,
        exportable=exportable,
        samples=pictures,
        targets=targets,
        rows=rows,
        scoring=scoring,
        preprocessing=preprocessing,
        texts=write_image_texts(
            spec.model.options.model_dump(),
            num_classes=len(index.classes),
            preprocessing=preprocessing,
            augment=spec.training.augment.model_dump(),
        ),
        notes=index.notes,
        held_out_test=index.held_out_test,
        baselines=list_baselines(decoded.images, targets, num_classes=len(index.classes)),
        describe_rows=lambda places: [_place_of(samples[place]) for place in places],
        read_pictures=lambda places: decoded.images[places],
        embedding=_open_embedding(spec, index, decoded, exportable, rows["test"]),
    )


def _open_embedding(
    spec: ImageClassificationSpec,
    index: DatasetIndex,
    decoded: DecodedImages,
    exportable: Exportable,
    test: NDArray[np.int64],
) -> EmbeddedPhotos | None:
    """Return what makes the files prepare photos themselves, if the spec asks for that."""
    if spec.model.interface == "plain":
        return None
    facts = spec.model.options.model_dump()
    return EmbeddedPhotos(
        pixel_format=PixelFormat(
            size=facts["image_size"], channels=facts["channels"], resize=facts["resize"]
        ),
        output=exportable.output,
        num_classes=len(index.classes),
        has_labels=index.labels_separator is not None,
        pictures=np.asarray(decoded.images[test[: len(SIDES)]]),
    )


def _open_exportable(
    order: Order,
    spec: ImageClassificationSpec,
    index: DatasetIndex,
    decoded: DecodedImages,
    weights: Mapping[str, torch.Tensor],
) -> Exportable:
    """Build the trained network with what exports it."""
    image_size, num_classes = decoded.images.shape[1], len(index.classes)
    if spec.model.source == "onnx":
        file = open_onnx(spec.model, order)
        ours = build_from_onnx(spec.model, file, num_classes=num_classes)
        ours.load_state_dict(weights)
        return make_onnx_exportable(ours, file=file, image_size=image_size)
    if spec.model.source == CODE:
        code = open_code(spec.model, order)
        network = build_from_code(spec.model, code, num_classes=num_classes)
    else:
        network = build_model(spec.model, num_classes=num_classes)
    network.load_state_dict(weights)
    return make_image_exportable(
        index,
        network,
        mean=decoded.facts.mean,
        std=decoded.facts.std,
        image_size=image_size,
        architecture=architecture_of(spec.model, num_classes=num_classes),
    )


def _place_of(sample: Sample) -> str:
    """Return where a sample is in its data set."""
    return sample.path if sample.row is None else f"{sample.path}, row {sample.row}"
