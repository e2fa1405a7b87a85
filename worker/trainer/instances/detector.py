"""RF-DETR with masks behind the interface of detectors: one output, boxes and masks in pixels.

The masks of a query are products of its features with those of the image's places.

Shapes: B batch, C channels, S side in pixels, T side of a mask, Q queries, K classes, M objects or
reported ones, A places that become queries, D width, H numbers of the heads.
"""

from typing import Any

import torch
from torch.nn import functional

from redkiln.spec.dense_models import DenseModel
from worker.trainer.dense.library import build_library
from worker.trainer.detection.selection import Found, select_boxes
from worker.trainer.instances.matching import match_each_image
from worker.trainer.instances.objects import read_masks
from worker.trainer.queries.detector import QueryDetector
from worker.trainer.queries.heads import apply_first_group, join_heads
from worker.trainer.queries.loss import list_labels

FoundMasks = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""Boxes (B, M, 4), scores (B, M), labels (B, M) int64 and masks (B, M, T, T) uint8."""


class InstanceDetector(QueryDetector):
    """A detector of transformers that finds the mask of each object, too.

    Attributes:
        mask_side: Side of a mask in pixels.
    """

    def __init__(self, model: DenseModel, *, num_classes: int) -> None:
        super().__init__(model, num_classes=num_classes)
        self.mask_side = find_mask_side(model)

    def forward(self, images: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        """Find objects, and compare them with targets.

        Args:
            images: (B, C, S, S), normalised.
            targets: (B, M, 5 + pixels), see `MaskedObjects`; None to find objects only.

        Returns:
            In training (B, 1), the mean loss. Otherwise (B, 1 + N): the loss, or 0 without targets;
            without targets the heads (B, H); logits of the masks (B, Q * T * T); and logits of
            classes and box of each query (B, Q * (K + 4)).
        """
        column: torch.Tensor = images.new_zeros((images.shape[0], 1), dtype=torch.float32)
        if targets is None:
            return torch.cat([column, *self._find(images)], dim=1)
        labels = list_labels(targets[..., :5], image_size=self.image_size)
        for one, table in zip(labels, targets, strict=True):
            one["masks"] = read_masks(table[table[:, 0] >= 0]).float()
        outputs = self.network(pixel_values=images, labels=labels)
        column = column + outputs.loss
        if self.training:
            return column
        queries = torch.cat([outputs.logits, outputs.pred_boxes], dim=-1).flatten(1)
        return torch.cat([column, outputs.pred_masks.flatten(1), queries], dim=1)

    @property
    def inner(self) -> Any:
        """The library's network without the layers that answer."""
        return self.network.model.model

    def find_compared(self, raw: torch.Tensor) -> torch.Tensor:
        """Return the heads (B, H) of an output: nothing in them depends on chosen queries."""
        per_query = self.num_classes + 4 + self.mask_side**2
        return raw[:, 1 : -self.num_queries * per_query]

    def find_instances(self, raw: torch.Tensor, *, threshold: float | torch.Tensor) -> FoundMasks:
        """Return the boxes of the best queries with their masks, 255 for a certain pixel."""
        boxes, scores = self.decode(raw)
        num, queries = boxes.shape[0], self.num_queries
        numbers = torch.arange(queries, device=boxes.device, dtype=boxes.dtype)
        numbered = torch.cat([boxes, numbers[None, :, None].expand(num, -1, 1)], dim=-1)
        found: Found = select_boxes(numbered, scores, threshold=threshold, is_suppressed=False)
        chosen, kept, labels = found
        end = -queries * (self.num_classes + 4)
        logits = raw[:, end - queries * self.mask_side**2 : end].reshape(-1, self.mask_side**2)
        first = queries * torch.arange(num, device=boxes.device)[:, None]
        rows = (chosen[..., 4].long() + first).flatten()
        masks = logits[rows].sigmoid().view(num, -1, self.mask_side, self.mask_side)
        masks = (255 * masks).round() * (labels >= 0)[..., None, None]
        return chosen[..., :4], kept, labels, masks.to(torch.uint8)

    def _find(self, images: torch.Tensor) -> list[torch.Tensor]:
        """Return heads, logits of masks, and queries, each (B, ...)."""
        network = self.network
        outputs = self.inner(images)
        places, logits, boxes = apply_first_group(self.inner, outputs.backbone_features)
        features = self._find_features(outputs.backbone_features)
        # The two factors of every mask that a place could have.
        factors = network.query_features_proj(network.query_features_block(places))
        heads = [join_heads(logits, boxes), factors.flatten(1), features.flatten(1)]
        masks = network.get_mask_logits(outputs.intermediate_hidden_states[-1], features)
        answers = network.model.predict_class_and_boxes(
            outputs.last_hidden_state, outputs.intermediate_reference_points[-1]
        )
        return [*heads, masks.flatten(1), torch.cat(answers, dim=-1).flatten(1)]

    def _find_features(self, features: torch.Tensor) -> torch.Tensor:
        """Return what queries are multiplied with, (B, D, T, T)."""
        network, size = self.network, (self.mask_side, self.mask_side)
        features = functional.interpolate(features, size=size, mode="bilinear", align_corners=False)
        for block in network.blocks:
            features = block(features)
        projected: torch.Tensor = network.spatial_features_proj(features)
        return projected

    def _build(self, model: DenseModel) -> Any:
        from transformers import AutoModelForInstanceSegmentation

        match_each_image()
        return build_library(AutoModelForInstanceSegmentation, model, num_classes=self.num_classes)


def find_mask_side(model: DenseModel) -> int:
    """Return the side in pixels of the masks of a resolved model."""
    assert model.options.image_size != "auto"
    return model.options.image_size // int(model.config["mask_downsample_ratio"])
