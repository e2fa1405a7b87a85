"""Opens a trained detector with the images that its export is scored on."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.annotations import DetectionIndex
from redkiln.predict.boxes.joined import list_found, pad_objects
from redkiln.predict.boxes.matching import choose_threshold
from redkiln.predict.boxes.scores import Detections
from redkiln.spec.job_spec import JobSpec
from redkiln.tasks.object_detection import ObjectDetectionSpec
from worker.export.exportable import Exportable
from worker.export.parity import predict_all
from worker.export.target import ExportTarget
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.tasks.imagery.opening import list_rows, pixel_format_of
from worker.tasks.object_detection.building import architecture_of, build_detector
from worker.tasks.object_detection.card import write_detector_texts
from worker.tasks.object_detection.data import decode_images, locate_objects
from worker.tasks.object_detection.evaluation import write_detection_evaluation
from worker.tasks.object_detection.exported import (
    DetectorSamples,
    describe_choice,
    describe_inputs,
    make_exportable,
)
from worker.tasks.object_detection.scoring import DetectionScoring
from worker.trainer.detection.objects import Objects
from worker.trainer.detection.selection import USUAL_THRESHOLD
from worker.trainer.images.decode.decoded_set import DecodedImages

MOST_VALIDATION = 200
"""Validation images that choose the default threshold, evenly spaced."""
BATCH = 16


def open_target(
    order: Order,
    spec: JobSpec,
    *,
    weights: Mapping[str, torch.Tensor],
    event_log: EventLog,
    reading: str | None = None,  # noqa: ARG001 - the spec alone decides how images are read
) -> ExportTarget:
    """Build the detector with its best weights, and open the images that it is scored on.

    Raises:
        TrainingFailed: the data set is missing or has changed.
    """
    assert isinstance(spec, ObjectDetectionSpec)
    located = locate_objects(order)
    index, pixel_format = located.index, pixel_format_of(spec.model.options)
    decoded = decode_images(located, spec.model, event_log=event_log)
    rows = list_rows(index, spec.training)
    objects = Objects(index, pixel_format, device=torch.device("cpu"))
    images = index.splits["train"] + index.splits["test"]
    truth = [objects.get_truth(row) for row in range(len(images))]
    samples = DetectorSamples(decoded.images)
    exportable = _open_exportable(spec, index, decoded, weights, threshold=USUAL_THRESHOLD)
    threshold = _choose_threshold(exportable, samples, truth, rows=rows["validation"])
    preprocessing = describe_inputs(spec.model.options, decoded.facts)
    return ExportTarget(
        spec=spec,
        exportable=_open_exportable(spec, index, decoded, weights, threshold=threshold),
        samples=samples,
        targets=pad_objects(truth),
        rows=rows,
        scoring=DetectionScoring(
            index.classes, threshold=threshold, choice=describe_choice(threshold)
        ),
        preprocessing=preprocessing,
        texts=write_detector_texts(
            preprocessing,
            num_classes=len(index.classes),
            threshold=threshold,
            augment=spec.training.augment.model_dump(),
        ),
        notes=index.notes,
        held_out_test=index.held_out_test,
        describe_rows=lambda places: [images[place].path for place in places],
        read_pictures=lambda places: decoded.images[places],
        write_evaluation=write_detection_evaluation,
    )


def _open_exportable(
    spec: ObjectDetectionSpec,
    index: DetectionIndex,
    decoded: DecodedImages,
    weights: Mapping[str, torch.Tensor],
    *,
    threshold: float,
) -> Exportable:
    detector = build_detector(spec.model, num_classes=len(index.classes))
    detector.load_state_dict(weights)
    return make_exportable(
        detector,
        mean=decoded.facts.mean,
        std=decoded.facts.std,
        architecture=architecture_of(spec.model, index.classes),
        threshold=threshold,
    )


def _choose_threshold(
    exportable: Exportable,
    samples: DetectorSamples,
    truth: Sequence[Detections],
    *,
    rows: NDArray[np.int64],
) -> float:
    """Return the threshold with the highest F1 on the validation split."""
    if not len(rows):
        return USUAL_THRESHOLD
    some = rows[:: -(-len(rows) // MOST_VALIDATION)]
    found = list_found(predict_all(exportable.predict, samples, some, batch_size=BATCH))
    wanted = [truth[row] for row in some]
    return choose_threshold(found, wanted, usual=USUAL_THRESHOLD)
