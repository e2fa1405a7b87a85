"""`python -m worker.hardware.selftest.segments`: check torch's expandable segments on this GPU.

This is the child that has to pass before a job gets them (worker.hardware.segments). It copies
numbers to the GPU, lets memory grow and shrink for many rounds, and reads back what was there all
the time. With a broken runtime it hangs, crashes, or reads zeros. It prints a `ProbeOutput`.

Source: pytorch/pytorch#192259 (the first copy hangs), ROCm/legacy-rocm-build#6603 (a live tensor is
zero from round 144 on); read 2026-11-24.
"""

import argparse
import sys
from collections.abc import Sequence

import torch

from worker.hardware.override import ProbeOutput

ROUNDS = 240
LIVE_BLOCKS = 24
"""Blocks that exist at once; the oldest ones are freed."""
MEMORY_SHARE = 48
LARGEST_BLOCK_BYTES = 256 * 2**20
EMPTY_EVERY = 40
WATCHED_BYTES = 2**20
RIGHT, WRONG = 0.0, 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and print; return 0 whatever the numbers are."""
    parser = argparse.ArgumentParser(prog="python -m worker.hardware.selftest.segments")
    parser.add_argument("--device", default="cuda:0", help="torch device")
    device = torch.device(parser.parse_args(arguments).device)
    sys.stdout.write(probe(device).model_dump_json() + "\n")
    return 0


def probe(device: torch.device, *, rounds: int = ROUNDS) -> ProbeOutput:
    """Copy, grow, free and read back; each error is 0 if everything was right, else 1."""
    if device.type == "cuda" and not torch.cuda.is_available():
        return ProbeOutput(error="torch opens no GPU")
    numbers = torch.arange(WATCHED_BYTES // 4, dtype=torch.int32)
    try:
        watched = numbers.to(device)
        errors = {"first copy": _judge(torch.equal(watched.cpu(), numbers))}
        errors["growth"] = _judge(_grow_and_free(device, rounds=rounds))
        errors["read-back"] = _judge(torch.equal(watched.cpu(), numbers))
    except RuntimeError as error:
        return ProbeOutput(error=f"torch could not compute: {str(error).splitlines()[0]}")
    if device.type == "cuda" and not _has_segments():
        return ProbeOutput(error="torch ignored the setting: no segment is expandable")
    return ProbeOutput(errors=errors)


def _grow_and_free(device: torch.device, *, rounds: int) -> bool:
    """Allocate and free blocks of changing size; return whether each kept its numbers."""
    step = _choose_step(device)
    blocks: list[tuple[int, torch.Tensor]] = []
    is_right = True
    for number in range(rounds):
        value = number % 251 + 1  # zeros are what a lost block reads as
        size = step * (number % 7 + 1) // 7
        blocks.append((value, torch.full((size,), value, dtype=torch.uint8, device=device)))
        if len(blocks) > LIVE_BLOCKS:
            is_right &= all(bool((block == value).all()) for value, block in blocks)
            del blocks[: LIVE_BLOCKS // 2]
        if device.type == "cuda" and number % EMPTY_EVERY == EMPTY_EVERY - 1:
            torch.cuda.empty_cache()
    return is_right and all(bool((block == value).all()) for value, block in blocks)


def _choose_step(device: torch.device) -> int:
    """Return the largest block in bytes: all together take at most half of the free memory."""
    if device.type != "cuda":
        return WATCHED_BYTES
    free, _ = torch.cuda.mem_get_info(device)
    return min(LARGEST_BLOCK_BYTES, free // MEMORY_SHARE)


def _has_segments() -> bool:
    snapshot = torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
    return any(segment.get("is_expandable") for segment in snapshot)


def _judge(is_right: bool) -> float:
    return RIGHT if is_right else WRONG


if __name__ == "__main__":
    sys.exit(main())
