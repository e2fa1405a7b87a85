"""What a detector of transformers predicts for every place of an image, before it selects queries.

The export compares these numbers: of equal scores each runtime may select another one, which gives
other queries and thus other boxes.

Shapes: B batch, A places of an image, K classes, D width, H and W sides of the coarse features.
"""

from typing import Any

import torch

LARGEST_LOGIT = 10.0
"""Places at the border have infinite coordinates, which no runtime can compare."""


def find_heads(network: Any, outputs: Any) -> torch.Tensor:
    """Return logits of classes and of boxes for every place, (B, A * (K + 4)).

    Args:
        network: The library's detector.
        outputs: Outputs of that detector for a batch.
    """
    if network.config.model_type == "rf_detr":
        _, logits, boxes = apply_first_group(network.model, outputs.backbone_features)
    else:
        logits, boxes = outputs.enc_outputs_class, outputs.enc_outputs_coord_logits
    return join_heads(logits, boxes)


def join_heads(logits: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    """Return logits of classes (B, A, K) and of boxes (B, A, 4) as (B, A * (K + 4))."""
    return torch.cat([logits, boxes.clamp(-LARGEST_LOGIT, LARGEST_LOGIT)], dim=-1).flatten(1)


def apply_first_group(
    model: Any, features: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return what RF-DETR predicts for features (B, D, H, W); it returns only what it selected.

    Returns:
        The queries (B, A, D) of all places, and their logits of classes and of boxes.
    """
    places = features.flatten(2).transpose(1, 2)  # (B, A, D)
    queries = model.enc_output_norm[0](model.enc_output[0](places))
    return queries, model.enc_out_class_embed[0](queries), model.enc_out_bbox_embed[0](queries)
