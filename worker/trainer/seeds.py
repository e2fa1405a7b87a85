"""Random generators that depend on their purpose, never on earlier draws.

The order of an epoch and its augmentation depend only on (seed, purpose, epoch), so a resumed run
continues in the middle of an epoch without any saved generator state.
"""

import hashlib

import torch


def build_generator(
    seed: int, purpose: str, epoch: int, *, device: torch.device
) -> torch.Generator:
    """Build a generator for one purpose in one epoch."""
    return torch.Generator(device=device).manual_seed(derive_seed(seed, purpose, epoch))


def derive_seed(seed: int, purpose: str, number: int) -> int:
    """Return a seed for one purpose in one epoch or step."""
    digest = hashlib.sha256(f"{seed}:{purpose}:{number}".encode()).digest()
    # CPU generators use 32 bits of a seed.
    return int.from_bytes(digest[:4], "little")
