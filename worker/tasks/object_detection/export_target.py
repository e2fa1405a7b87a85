"""Opens a trained detector with the images that its export is scored on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.predict.boxes.joined import list_found, pad_objects
from redkiln.predict.boxes.matching import choose_threshold
from redkiln.predict.boxes.scores import Detections
from redkiln.spec.job_spec import JobSpec
from redkiln.tasks.object_detection import DetectorSpec
from worker.export.exportable import Exportable
from worker.export.parity import predict_all
from worker.export.target import CardTexts, ExportTarget
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
from worker.trainer.detection.network import DetectorNetwork
from worker.trainer.detection.objects import Objects
from worker.trainer.detection.selection import USUAL_THRESHOLD
from worker.trainer.images.decode.facts import DecodedFacts

MOST_VALIDATION = 200
"""Validation images that choose the default threshold, evenly spaced."""
BATCH = 16


@dataclass(frozen=True)
class ExportParts:
    """What differs between tasks that find objects.

    Attributes:
        objects: Class of the objects.
        build: Builds the network of a resolved model.
        describe: Returns everything that decides a network's graph, as JSON.
        make_exportable: Makes the model to export.
        describe_inputs: Returns the preprocessing, as JSON, for a model and facts of its images.
        gather: Makes an array of the objects of all images.
        scoring: Class of the scoring.
        write_texts: Writes the task's texts of the card.
    """

    objects: type[Objects]
    build: Callable[..., DetectorNetwork]
    describe: Callable[..., dict[str, Any]]
    make_exportable: Callable[..., Exportable]
    describe_inputs: Callable[[Any, DecodedFacts], dict[str, Any]]
    gather: Callable[[list[Detections]], NDArray[Any]]
    scoring: type[DetectionScoring]
    write_texts: Callable[..., CardTexts]


BOXES = ExportParts(
    objects=Objects,
    build=build_detector,
    describe=architecture_of,
    make_exportable=make_exportable,
    describe_inputs=lambda model, facts: describe_inputs(model.options, facts),
    gather=pad_objects,
    scoring=DetectionScoring,
    write_texts=write_detector_texts,
)


def open_target(
    order: Order,
    spec: JobSpec,
    *,
    weights: Mapping[str, torch.Tensor],
    event_log: EventLog,
    reading: str | None = None,  # noqa: ARG001 - the spec alone decides how images are read
    parts: ExportParts = BOXES,
) -> ExportTarget:
    """Build the network with its best weights, and open the images that it is scored on.

    Raises:
        TrainingFailed: the data set is missing or has changed.
    """
    assert isinstance(spec, DetectorSpec)
    located = locate_objects(order)
    index, pixel_format = located.index, pixel_format_of(spec.model.options)
    decoded = decode_images(located, spec.model, event_log=event_log)
    rows = list_rows(index, spec.training)
    objects = parts.objects(index, pixel_format, device=torch.device("cpu"))
    images = index.splits["train"] + index.splits["test"]
    truth = [objects.get_truth(row) for row in range(len(images))]
    samples = DetectorSamples(decoded.images)
    detector = parts.build(spec.model, num_classes=len(index.classes))
    detector.load_state_dict(weights)
    export = partial(
        parts.make_exportable,
        detector,
        mean=decoded.facts.mean,
        std=decoded.facts.std,
        architecture=parts.describe(spec.model, index.classes),
    )
    usual = export(threshold=USUAL_THRESHOLD)
    threshold = _choose_threshold(usual, samples, truth, rows=rows["validation"])
    preprocessing = parts.describe_inputs(spec.model, decoded.facts)
    return ExportTarget(
        spec=spec,
        exportable=export(threshold=threshold),
        samples=samples,
        targets=parts.gather(truth),
        rows=rows,
        scoring=parts.scoring(
            index.classes, threshold=threshold, choice=describe_choice(threshold)
        ),
        preprocessing=preprocessing,
        texts=parts.write_texts(
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
