"""Opens a trained network with the images that its export is scored on."""

from collections.abc import Mapping
from typing import Any

import torch

from redkiln.predict.instances.joined import as_array
from redkiln.spec.job_spec import JobSpec
from redkiln.tasks.instance_segmentation import InstanceSegmentationSpec, InstanceSegmenter
from worker.export.target import ExportTarget
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.tasks.instance_segmentation.card import write_instance_texts
from worker.tasks.instance_segmentation.exported import describe_inputs, make_exportable
from worker.tasks.instance_segmentation.scoring import InstanceScoring
from worker.tasks.instance_segmentation.setup import describe_architecture
from worker.tasks.object_detection.export_target import ExportParts, open_parts
from worker.trainer.images.decode.facts import DecodedFacts
from worker.trainer.instances.detector import InstanceDetector, find_mask_side
from worker.trainer.instances.objects import MaskedObjects


def open_target(
    order: Order,
    spec: JobSpec,
    *,
    weights: Mapping[str, torch.Tensor],
    event_log: EventLog,
    reading: str | None = None,  # noqa: ARG001 - the spec alone decides how images are read
) -> ExportTarget:
    """Build the network with its best weights, and open the images that it is scored on.

    Raises:
        TrainingFailed: the data set is missing or has changed.
    """
    assert isinstance(spec, InstanceSegmentationSpec)
    parts = ExportParts(
        objects=MaskedObjects,
        build=InstanceDetector,
        describe=describe_architecture,
        make_exportable=make_exportable,
        describe_inputs=_describe_inputs,
        gather=as_array,
        scoring=InstanceScoring,
        write_texts=write_instance_texts,
    )
    return open_parts(order, spec, parts, weights=weights, event_log=event_log)


def _describe_inputs(model: InstanceSegmenter, facts: DecodedFacts) -> dict[str, Any]:
    return describe_inputs(model.options, facts, mask_side=find_mask_side(model))
