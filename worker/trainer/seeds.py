"""Random numbers that depend on what they are for, never on what was drawn before.

The order of an epoch and its augmentation follow from (seed, purpose, epoch) alone, so a resumed
run continues in the middle of an epoch without having to save any of it.
"""

import hashlib

import torch


def build_generator(
    seed: int, purpose: str, epoch: int, *, device: torch.device
) -> torch.Generator:
    """A generator for one purpose in one epoch."""
    return torch.Generator(device=device).manual_seed(derive_seed(seed, purpose, epoch))


def derive_seed(seed: int, purpose: str, number: int) -> int:
    """A seed for one purpose in one epoch, or one step."""
    digest = hashlib.sha256(f"{seed}:{purpose}:{number}".encode()).digest()
    # CPU generators use 32 bits of a seed.
    return int.from_bytes(digest[:4], "little")
