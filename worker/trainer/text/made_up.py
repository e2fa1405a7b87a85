"""Made-up texts, on which a network is tried before it reads one of the data set.

Legend of shapes: B batch, T tokens.
"""

from typing import Any

import torch


def find_end(config: dict[str, Any]) -> int | None:
    """The token that a network may look for at a text's end; None where it knows of none.

    Args:
        config: of the network, whole.
    """
    end = config.get("eos_token_id")
    return end if isinstance(end, int) else None


def make_up_ids(num: int, *, length: int, vocabulary: int) -> torch.Tensor:
    """(num, length) int64, any tokens of a vocabulary."""
    return torch.arange(num * length).mul_(7).remainder_(vocabulary).view(num, length)


def end_texts(
    ids: torch.Tensor, *, end: int | None, vocabulary: int, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """The same texts with the token at their end, and there alone, that some networks look for.

    bart and t5 read the state at it, and refuse a batch whose texts have it not or not equally
    often.

    Args:
        ids: (B, T) int64.
        end: `find_end`; without one nothing changes.
        vocabulary: of the network.
        mask: (B, T) int64, 0 where a row is padded.
    """
    if end is None:
        return ids
    ids = torch.where(ids == end, (ids + 1) % vocabulary, ids)
    lengths = torch.full((len(ids),), ids.shape[1]) if mask is None else mask.sum(dim=1)
    ids[torch.arange(len(ids)), lengths - 1] = end
    return ids
