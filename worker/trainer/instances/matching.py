"""Matches queries with objects image by image, where the library compares whole batches.

Problem: the library compares the mask of every query with those of all images' objects, at a number
of points that grows with the batch and the queries: 13 groups of 300 queries and 16 images take
7.8 GB for the places of these points alone. An image without objects makes it fail, and a batch
without any has masks as its loss.
Applies to: RfDetrForInstanceSegmentation of transformers 5.23.
Effect: an image's queries are compared with its own objects, at a sixteenth of the pixels of a mask
as the configuration says. Only those pairs could be matched before.
Remove when: the library does the same.
"""

from typing import Any

import torch

MATCHER, LOSS = "RfDetrHungarianMatcher", "RfDetrImageLoss"
Pairs = list[tuple[torch.Tensor, torch.Tensor]]


def match_each_image() -> None:
    """Replace the library's classes by ones that match image by image, and return numbers."""
    from transformers.loss import loss_rf_detr

    module: Any = loss_rf_detr
    if getattr(module, "is_by_image", False):
        return
    setattr(module, MATCHER, _by_image(getattr(module, MATCHER)))
    setattr(module, LOSS, _in_numbers(getattr(module, LOSS)))
    module.is_by_image = True


def _by_image(theirs: Any) -> Any:
    class ByImage(theirs):  # type: ignore[misc]
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._ratio: int = options["mask_point_sample_ratio"]

        def forward(
            self, outputs: dict[str, torch.Tensor], targets: list[Any], group_detr: int
        ) -> Pairs:
            num_queries, height, width = outputs["pred_masks"].shape[1:]
            # The library takes the product of the queries and the 4 ends of a box for the pixels.
            pixels = height * width
            self.mask_point_sample_ratio = max(1, self._ratio * 4 * num_queries // pixels)
            pairs: Pairs = []
            for place, target in enumerate(targets):
                if not len(target["class_labels"]):
                    nothing = torch.empty(0, dtype=torch.int64)
                    pairs.append((nothing, nothing))
                    continue
                one = {
                    name: outputs[name][place : place + 1]
                    for name in ("logits", "pred_boxes", "pred_masks")
                }
                pairs += super().forward(one, [target], group_detr)
            return pairs

    return ByImage


def _in_numbers(theirs: Any) -> Any:
    class InNumbers(theirs):  # type: ignore[misc]
        def loss_masks(self, *arguments: Any) -> dict[str, torch.Tensor]:
            return {name: value.sum() for name, value in super().loss_masks(*arguments).items()}

    return InNumbers
