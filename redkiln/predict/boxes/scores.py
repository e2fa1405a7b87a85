"""Average precision of detections, as COCO defines it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.instances.regions import count_pixels

METRICS = {"map": "AP_all", "map50": "AP_50", "map75": "AP_75"}
"""Our names of the library's metrics."""
SIZES = {"map_small": "AP_small", "map_medium": "AP_medium", "map_large": "AP_large"}
"""The same for objects below 32x32 pixels, below 96x96, and larger."""
CROWD = -2
"""Label of a box that covers a group of objects, which neither counts nor harms."""


@dataclass(frozen=True)
class Detections:
    """What a detector found in one image, the best first; or the truth, with scores of 1.

    Attributes:
        boxes: (M, 4) as left, top, right, bottom in pixels.
        scores: (M,) in [0, 1].
        labels: (M,) int64; the truth has `CROWD` for a group of objects.
        regions: The pixels of each object in the model's square, as
            `redkiln.predict.instances.regions` writes them; None of a model that finds boxes only.
        side: Side of that square in pixels.
    """

    boxes: NDArray[np.floating]
    scores: NDArray[np.floating]
    labels: NDArray[np.int64]
    regions: Sequence[bytes] | None = None
    side: int = 0

    def select(self, is_kept: NDArray[np.bool_]) -> "Detections":
        """Return some of them."""
        regions = self.regions
        if regions is not None:
            regions = [regions[place] for place in np.flatnonzero(is_kept).tolist()]
        return Detections(
            self.boxes[is_kept], self.scores[is_kept], self.labels[is_kept], regions, self.side
        )

    def list_regions(self) -> list[dict[str, Any]]:
        """Return the pixels of each object as COCO writes them."""
        return [{"size": [self.side, self.side], "counts": one} for one in self.regions or ()]


Kind = Literal["bbox", "segm"]
"""What overlaps: boxes, or masks."""


def score_detections(
    found: Sequence[Detections],
    truth: Sequence[Detections],
    *,
    num_classes: int,
    by_size: bool = False,
    kind: Kind = "bbox",
) -> dict[str, float]:
    """Return `map`, `map50` and `map75` in [0, 1], means over the classes that occur.

    All are 0 if no image has an object. With `by_size`, `map_small`, `map_medium` and `map_large`
    follow, as far as there are such objects.
    """
    if not any((image.labels >= 0).any() for image in truth):
        return dict.fromkeys(METRICS, 0.0)
    evaluation = evaluate_as_coco(found, truth, num_classes=num_classes, kind=kind)
    measured = evaluation.stats_as_dict
    wanted = METRICS | SIZES if by_size else METRICS
    scores = {name: float(measured[theirs]) for name, theirs in wanted.items()}
    return {name: value for name, value in scores.items() if value >= 0}


def evaluate_as_coco(
    found: Sequence[Detections],
    truth: Sequence[Detections],
    *,
    num_classes: int,
    kind: Kind = "bbox",
) -> Any:
    """Return the library's finished evaluation, a `COCOeval_faster`."""
    evaluation = _open_evaluation(found, truth, num_classes=num_classes, kind=kind)
    evaluation.run()
    return evaluation


class MatchedImages:
    """Images whose objects are matched once, so that many resamples of them are scored quickly."""

    def __init__(
        self,
        found: Sequence[Detections],
        truth: Sequence[Detections],
        *,
        num_classes: int,
        kind: Kind = "bbox",
    ) -> None:
        self._evaluation = _open_evaluation(
            found, truth, num_classes=num_classes, kind=kind, separate_eval=True
        )
        self._thresholds = self._evaluation.params.iouThrs
        self._evaluation.params.areaRng = self._evaluation.params.areaRng[:1]  # of any size
        self._evaluation.evaluate()
        # The library counts classes first. It keeps this list for its own second step.
        matches = np.empty(num_classes * len(found), dtype=object)
        matches[:] = self._evaluation._evalImgs_cpp
        self._matches = matches.reshape(num_classes, len(found))

    def score(self, places: NDArray[np.int64]) -> dict[str, float]:
        """Return what `score_detections` returns for a resample (N,) of the N images."""
        self._evaluation._evalImgs_cpp = self._matches[:, places].ravel().tolist()
        self._evaluation.accumulate()
        # Of all sizes, and with most detections an image: (thresholds, recalls, classes).
        precision = self._evaluation.eval["precision"][:, :, :, 0, -1]
        wanted = {"map": precision}
        for name, threshold in (("map50", 0.5), ("map75", 0.75)):
            wanted[name] = precision[np.isclose(self._thresholds, threshold)]
        return {
            name: float(some[some >= 0].mean()) if (some >= 0).any() else 0.0
            for name, some in wanted.items()
        }


def _open_evaluation(
    found: Sequence[Detections],
    truth: Sequence[Detections],
    *,
    num_classes: int,
    kind: Kind,
    **how: bool,
) -> Any:
    # Only jobs that detect need it, and it takes a tenth of a second to import.
    from faster_coco_eval import COCO, COCOeval_faster

    annotated = COCO(_write_truth(truth, num_classes=num_classes))
    detected = annotated.loadRes(_write_found(found) if kind == "bbox" else _write_regions(found))
    return COCOeval_faster(
        annotated, detected, iouType=kind, print_function=lambda *_text: None, **how
    )


def _write_truth(truth: Sequence[Detections], *, num_classes: int) -> Mapping[str, Any]:
    """Return COCO's description of the objects. A crowd belongs to every class."""
    annotations: list[dict[str, Any]] = []
    for number, image in enumerate(truth, start=1):
        regions: Sequence[dict[str, Any] | None] = image.list_regions()
        regions = regions or [None] * len(image.labels)
        for (left, top, right, bottom), label, region in zip(
            image.boxes.tolist(), image.labels.tolist(), regions, strict=True
        ):
            sides = right - left, bottom - top
            area = sides[0] * sides[1] if region is None else count_pixels([region])[0]
            common = {"image_id": number, "bbox": [left, top, *sides], "area": area}
            if region is not None:
                common["segmentation"] = region
            for category in range(num_classes) if label == CROWD else [label]:
                annotations.append(
                    {
                        **common,
                        "id": len(annotations) + 1,
                        "category_id": category + 1,
                        "iscrowd": int(label == CROWD),
                    }
                )
    return {
        "images": [
            {"id": number, "height": image.side, "width": image.side}
            for number, image in enumerate(truth, start=1)
        ],
        "annotations": annotations,
        "categories": [{"id": label + 1, "name": str(label)} for label in range(num_classes)],
    }


def _write_found(found: Sequence[Detections]) -> NDArray[np.float64]:
    """Return COCO's rows of detections, (D, 7): image, left, top, width, height, score, class."""
    pieces = [np.empty((0, 7))]
    for number, image in enumerate(found, start=1):
        boxes = np.asarray(image.boxes, dtype=np.float64).reshape(-1, 4)
        sides = boxes[:, 2:] - boxes[:, :2]
        numbers = np.full((len(boxes), 1), number)
        last = np.stack([image.scores, image.labels + 1], axis=1)
        pieces.append(np.concatenate([numbers, boxes[:, :2], sides, last], axis=1))
    return np.concatenate(pieces)


def _write_regions(found: Sequence[Detections]) -> list[dict[str, Any]]:
    """Return COCO's list of detections with masks."""
    return [
        {"image_id": number, "category_id": label + 1, "score": score, "segmentation": region}
        for number, image in enumerate(found, start=1)
        for label, score, region in zip(
            image.labels.tolist(), image.scores.tolist(), image.list_regions(), strict=True
        )
    ]
