"""Opens a trained network with the images that its export is scored on."""

from functools import partial
from typing import Any

from redkiln.predict.instances.joined import as_array
from redkiln.tasks.instance_segmentation import InstanceSegmenter
from worker.tasks.instance_segmentation.card import write_instance_texts
from worker.tasks.instance_segmentation.exported import describe_inputs, make_exportable
from worker.tasks.instance_segmentation.scoring import InstanceScoring
from worker.tasks.instance_segmentation.setup import describe_architecture
from worker.tasks.object_detection import export_target
from worker.tasks.object_detection.export_target import ExportParts
from worker.trainer.images.decode.facts import DecodedFacts
from worker.trainer.instances.detector import InstanceDetector, find_mask_side
from worker.trainer.instances.objects import MaskedObjects


def _describe_inputs(model: InstanceSegmenter, facts: DecodedFacts) -> dict[str, Any]:
    return describe_inputs(model.options, facts, mask_side=find_mask_side(model))


open_target = partial(
    export_target.open_target,
    parts=ExportParts(
        objects=MaskedObjects,
        build=InstanceDetector,
        describe=describe_architecture,
        make_exportable=make_exportable,
        describe_inputs=_describe_inputs,
        gather=as_array,
        scoring=InstanceScoring,
        write_texts=write_instance_texts,
    ),
)
"""Builds the network with its best weights, and opens the images that it is scored on."""
