"""All-reduce over several devices, with one process for each rank, as in training on several GPUs.

`python -m worker.hardware.benchmark.allreduce` runs one rank; rank 0 prints the samples as JSON.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import torch
from torch import distributed

from redkiln.views.benchmark import Measurement, Rate, summarise
from worker.hardware.children import start_child

SIZES: dict[str, int] = {"ResNet-18's gradients": 46_800_000, "256 MiB": 256 * 2**20}
"""Sizes to sum: 11.7 million parameters in float32, and a size that saturates the links."""
WARM_CALLS = 5
TIMEOUT_SECONDS = 120.0


def measure_allreduce(
    num_ranks: int,
    *,
    device_type: str,
    rounds: int,
    environ: Mapping[str, str],
    sizes: Mapping[str, int] = SIZES,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> list[Measurement]:
    """Measure all-reduce over the first devices; on failure `skipped` gives the reason.

    RCCL is available under the name `nccl`; CPUs use gloo.

    Args:
        num_ranks: Number of devices and processes.
        device_type: Torch's device type, `cuda` or `cpu`.
        rounds: Samples of each size.
        environ: Environment of the ranks.
        sizes: Sizes in bytes, by description.
        timeout_seconds: Time limit for all of it, because links are known to hang.
    """
    try:
        samples = _run_ranks(
            num_ranks,
            ["--device-type", device_type, "--rounds", str(rounds),
             "--sizes", json.dumps(list(sizes.values()))],
            environ=environ,
            timeout_seconds=timeout_seconds,
        )  # fmt: skip
    except RuntimeError as error:
        return [_skip(name, size, str(error)) for name, size in sizes.items()]
    return [
        _describe(name, size, seconds, num_ranks=num_ranks)
        for (name, size), seconds in zip(sizes.items(), samples, strict=True)
    ]


def skip_allreduce(why: str, sizes: Mapping[str, int] = SIZES) -> list[Measurement]:
    """Return the test's results where it cannot run."""
    return [_skip(name, size, why) for name, size in sizes.items()]


def bus_bytes(num_bytes: int, *, num_ranks: int) -> float:
    """Return the bytes that each link carries at least, so that different rank counts compare.

    Source: NCCL's own tests, doc/PERFORMANCE.md: 2 (n - 1) / n of the buffer.
    """
    return 2 * (num_ranks - 1) / num_ranks * num_bytes


def _run_ranks(
    num_ranks: int,
    arguments: Sequence[str],
    *,
    environ: Mapping[str, str],
    timeout_seconds: float,
) -> list[list[float]]:
    """Return the samples of each size in seconds.

    Raises:
        RuntimeError: A rank failed, or the ranks took too long.
    """
    with ExitStack() as held:
        folder = held.enter_context(tempfile.TemporaryDirectory(prefix="redkiln-allreduce-"))
        children = [
            held.enter_context(
                start_child(
                    "worker.hardware.benchmark.allreduce",
                    [*arguments, "--rank", str(rank), "--ranks", str(num_ranks),
                     "--meeting", f"{folder}/meeting"],
                    environ={"GLOO_SOCKET_IFNAME": "lo", **environ},
                )
            )
            for rank in range(num_ranks)
        ]  # fmt: skip
        try:
            outputs = [child.communicate(timeout=timeout_seconds) for child in children]
        except subprocess.TimeoutExpired:
            message = f"the ranks did not finish within {timeout_seconds:.0f} s"
            raise RuntimeError(message) from None
        for rank, (child, (_, errors)) in enumerate(zip(children, outputs, strict=True)):
            if child.returncode != 0:
                last = (errors.strip().splitlines() or ["no output"])[-1]
                raise RuntimeError(f"rank {rank} exited with status {child.returncode}: {last}")
    samples: list[list[float]] = json.loads(outputs[0][0])
    return samples


def _describe(name: str, size: int, seconds: Sequence[float], *, num_ranks: int) -> Measurement:
    carried = bus_bytes(size, num_ranks=num_ranks)
    rate: Rate = summarise([carried / 1e9 / each for each in seconds])
    base = _skip(name, size, None)
    return base.model_copy(
        update={
            "title": f"{base.title}, over {num_ranks} GPUs",
            "rate": rate,
            "seconds": carried / 1e9 / rate.value,
        }
    )


def _skip(name: str, size: int, why: str | None) -> Measurement:
    return Measurement(
        id=f"allreduce/{size}",
        test="allreduce",
        title=f"all-reduce of {name}",
        unit="GB/s",
        size=size,
        skipped=why,
    )


def main(arguments: Sequence[str]) -> int:
    """Run one rank."""
    parser = argparse.ArgumentParser(prog="python -m worker.hardware.benchmark.allreduce")
    parser.add_argument("--device-type", required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--sizes", type=json.loads, required=True)
    parser.add_argument("--meeting", type=Path, required=True)
    options = parser.parse_args(arguments)
    is_gpu = options.device_type == "cuda"
    device = torch.device(f"cuda:{options.rank}" if is_gpu else "cpu")
    if is_gpu:
        torch.cuda.set_device(device)
    distributed.init_process_group(
        "nccl" if is_gpu else "gloo",
        init_method=f"file://{options.meeting}",
        rank=options.rank,
        world_size=options.ranks,
    )
    samples = [_time_size(size, device, rounds=options.rounds) for size in options.sizes]
    if options.rank == 0:
        sys.stdout.write(json.dumps(samples))
    distributed.destroy_process_group()
    return 0


def _time_size(num_bytes: int, device: torch.device, *, rounds: int) -> list[float]:
    from worker.hardware.benchmark.device import synchronize
    from worker.hardware.benchmark.timing import time_once

    buffer = torch.zeros(num_bytes // 4, device=device)

    def call() -> None:
        distributed.all_reduce(buffer)

    def wait() -> None:
        synchronize(device)
        distributed.barrier()

    for _ in range(WARM_CALLS):
        call()
    return [time_once(call, 3, synchronize=wait) for _ in range(rounds)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
