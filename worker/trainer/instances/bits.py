"""Masks as few numbers, so that they are columns next to the boxes of objects.

Each number holds 16 pixels, which float32 represents exactly.

Shapes: M objects, P pixels of a mask, a multiple of 16.
"""

import torch

PIXELS = 16
"""Pixels of a number."""


def pack_bits(masks: torch.Tensor) -> torch.Tensor:
    """Return masks (M, P) of 0 and 1 as (M, P / 16) float32."""
    groups = masks.reshape(len(masks), -1, PIXELS).float()
    return groups @ _weights(masks.device).float()


def unpack_bits(packed: torch.Tensor) -> torch.Tensor:
    """Return packed masks (M, P / 16) as (M, P) uint8 of 0 and 1."""
    numbers = packed.int()[..., None]
    return (numbers // _weights(packed.device) % 2).to(torch.uint8).flatten(1)


def _weights(device: torch.device) -> torch.Tensor:
    return 2 ** torch.arange(PIXELS, dtype=torch.int32, device=device)
