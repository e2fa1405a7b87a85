"""A process that tries the exchange of data between GPUs: `... worker.hardware.selftest.peer_rank`.

All processes add up known numbers, in a small and in a large buffer, and each checks every sum.
Integers below 2^24 are exact in float32, in any order of addition.

The process ends itself if an exchange takes too long: a hang is in a kernel or native code, which
only a separate thread can end.
"""

import argparse
import faulthandler
import json
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed

SIZES_BYTES = (4096, 32 * 2**20)
"""One size for the path of short messages, and one for that of long ones."""
ROUNDS = 3
HIGHEST = 4096
"""Values of the first rank are below this; times 64 * 65 / 2 for 64 ranks they stay below 2^24."""
MEETING_SECONDS = 240.0
"""A cold import of a ROCm build from a slow disk takes over a minute, and differs between ranks."""
EXIT_WRONG = 4


def expected_sum(values: torch.Tensor, *, num_ranks: int) -> torch.Tensor:
    """Return the sum of the ranks' buffers, where rank r (from 0) has r + 1 times the values."""
    return values * (num_ranks * (num_ranks + 1) // 2)


def main(arguments: Sequence[str]) -> int:
    """Run one process; the first one prints the rate as JSON."""
    parser = argparse.ArgumentParser(prog="python -m worker.hardware.selftest.peer_rank")
    parser.add_argument("--device-type", required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--meeting", type=Path, required=True)
    options = parser.parse_args(arguments)
    is_gpu = options.device_type == "cuda"
    device = torch.device(f"cuda:{options.rank}" if is_gpu else "cpu")
    if is_gpu:
        torch.cuda.set_device(device)
        torch.zeros(1, device=device).add_(1).item()
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{options.meeting}",
        rank=options.rank,
        world_size=options.ranks,
        timeout=timedelta(seconds=MEETING_SECONDS),
    )
    distributed.barrier()
    # All processes are running now, so only the exchange can take long from here on.
    faulthandler.dump_traceback_later(options.seconds, exit=True)
    group = distributed.new_group(backend="nccl" if is_gpu else "gloo")
    rates = []
    for num_bytes in SIZES_BYTES:
        for _ in range(ROUNDS):
            rate, problem = _exchange(num_bytes, options.rank, options.ranks, device, group)
            if problem:
                sys.stderr.write(f"{problem}\n")
                return EXIT_WRONG
            rates.append(rate)
    faulthandler.cancel_dump_traceback_later()
    if options.rank == 0:
        sys.stdout.write(json.dumps({"bytes_per_second": max(rates[-ROUNDS:])}))
    distributed.barrier()
    return 0


def _exchange(
    num_bytes: int,
    rank: int,
    num_ranks: int,
    device: torch.device,
    group: "distributed.ProcessGroup | None",
) -> tuple[float, str]:
    values = (torch.arange(num_bytes // 4, device=device) % HIGHEST).float()
    buffer = values * (rank + 1)
    began = time.perf_counter()
    distributed.all_reduce(buffer, group=group)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    seconds = time.perf_counter() - began
    wrong = int((buffer != expected_sum(values, num_ranks=num_ranks)).sum())
    problem = f"{wrong} of {len(values)} sums of {num_bytes} bytes are wrong" if wrong else ""
    return num_bytes / seconds, problem


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
