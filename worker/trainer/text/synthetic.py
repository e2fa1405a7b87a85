"""Generated texts on which a network is tried before it reads the data set.

Shapes: B batch, T tokens.
"""

from typing import Any

import torch


def find_end(config: dict[str, Any]) -> int | None:
    """Return the token that a network may require at a text's end, or None.

    Args:
        config: The network's whole configuration.
    """
    end = config.get("eos_token_id")
    return end if isinstance(end, int) else None


def make_synthetic_ids(num: int, *, length: int, vocabulary: int) -> torch.Tensor:
    """Return arbitrary tokens of a vocabulary, (num, length) int64."""
    return torch.arange(num * length).mul_(7).remainder_(vocabulary).view(num, length)


def end_texts(
    ids: torch.Tensor, *, end: int | None, vocabulary: int, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the texts with the end token at their end, and nowhere else.

    bart and t5 read the state at this token, and refuse a batch whose texts do not all contain it
    equally often.

    Args:
        ids: (B, T) int64.
        end: Result of `find_end`; if None, the texts are returned unchanged.
        vocabulary: Size of the network's vocabulary.
        mask: (B, T) int64, 0 where a row is padded.
    """
    if end is None:
        return ids
    ids = torch.where(ids == end, (ids + 1) % vocabulary, ids)
    lengths = torch.full((len(ids),), ids.shape[1]) if mask is None else mask.sum(dim=1)
    ids[torch.arange(len(ids)), lengths - 1] = end
    return ids
