"""Opens a trained segmenter with the images that its export is scored on."""

from collections.abc import Mapping

import torch

from redkiln.spec.job_spec import JobSpec
from redkiln.tasks.semantic_segmentation import SemanticSegmentationSpec
from worker.export.target import ExportTarget
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.tasks.imagery.exported import ImageSamples
from worker.tasks.imagery.opening import list_rows, pixel_format_of
from worker.tasks.semantic_segmentation.card import write_segmenter_texts
from worker.tasks.semantic_segmentation.data import locate_masks
from worker.tasks.semantic_segmentation.evaluation import write_segmentation_evaluation
from worker.tasks.semantic_segmentation.exported import describe_inputs, make_exportable
from worker.tasks.semantic_segmentation.scoring import SegmentationScoring
from worker.tasks.semantic_segmentation.setup import architecture_of, build_segmenter
from worker.trainer.images.located import decode_dataset
from worker.trainer.segmentation.masks import load_masks


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
    assert isinstance(spec, SemanticSegmentationSpec)
    located = locate_masks(order)
    index, pixel_format = located.index, pixel_format_of(spec.model.options)
    decoded = decode_dataset(located, pixel_format, event_log=event_log)
    images = index.splits["train"] + index.splits["test"]
    segmenter = build_segmenter(spec.model, num_classes=len(index.classes))
    segmenter.load_state_dict(weights)
    preprocessing = describe_inputs(spec.model.options, decoded.facts)
    return ExportTarget(
        spec=spec,
        exportable=make_exportable(
            segmenter,
            mean=decoded.facts.mean,
            std=decoded.facts.std,
            architecture=architecture_of(spec.model, index.classes),
        ),
        samples=ImageSamples(decoded.images),
        targets=load_masks(index, pixel_format, folder=order.paths.cache_dir),
        rows=list_rows(index, spec.training),
        scoring=SegmentationScoring(index.classes),
        preprocessing=preprocessing,
        texts=write_segmenter_texts(
            preprocessing,
            num_classes=len(index.classes),
            augment=spec.training.augment.model_dump(),
        ),
        notes=index.notes,
        held_out_test=index.held_out_test,
        describe_rows=lambda places: [images[place].path for place in places],
        read_pictures=lambda places: decoded.images[places],
        write_evaluation=write_segmentation_evaluation,
    )
