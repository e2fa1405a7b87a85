"""`python -m worker.hardware.selftest.trial NAME`: one operation on a device, compared with a CPU.

The doctor runs each in a separate process with a time limit, because a broken GPU hangs or
crashes. Prints a line of JSON: the largest error, what is allowed, and the seconds of the call.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence

import torch

from worker.hardware.selftest.cases import Case, attention_case, convolution_case, gemm_case
from worker.hardware.selftest.compare import compare
from worker.hardware.selftest.shapes import AttentionShape, ConvolutionShape, GemmShape
from worker.hardware.selftest.tolerance import allowed_error

SEED = 25
COPY_NUMBERS = 4 * 2**20
"""16 MiB: large enough for the path of long copies, small enough for any free memory."""

CASES: dict[str, Callable[[], Case]] = {
    "matmul": lambda: gemm_case(GemmShape(256, 512, 256)),
    "convolution": lambda: convolution_case(ConvolutionShape(2, 16, 16, 16)),
    "attention": lambda: attention_case(AttentionShape(1, 2, 128, 64, is_causal=True)),
}


def main(arguments: Sequence[str]) -> int:
    """Run one trial; return 0 whatever the numbers are."""
    parser = argparse.ArgumentParser(prog="python -m worker.hardware.selftest.trial")
    parser.add_argument("name", choices=["copy", *CASES])
    parser.add_argument("--device", default="cpu", help="torch device (default: cpu)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    device = torch.device(options.device)
    told = try_copy(device) if options.name == "copy" else try_case(CASES[options.name](), device)
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


def try_copy(device: torch.device) -> dict[str, float | None]:
    """Copy numbers to the device and back, after an operation on them that is exact."""
    numbers = torch.randn(COPY_NUMBERS, generator=torch.Generator().manual_seed(SEED))
    began = time.perf_counter()
    back = (numbers.to(device) * -2.0).cpu()
    seconds = time.perf_counter() - began
    error = float((back + 2.0 * numbers).abs().max())
    return {"error": None if math.isnan(error) else error, "allowed": 0.0, "seconds": seconds}


def try_case(case: Case, device: torch.device) -> dict[str, float | None]:
    """Compute a case of the self-test in float32, with its gradients, and compare it."""
    generator = torch.Generator().manual_seed(SEED)
    inputs = [torch.randn(size, generator=generator) for size in case.sizes]
    want = case.compute([each.double() for each in inputs])
    began = time.perf_counter()
    got = case.compute([each.clone().to(device) for each in inputs])
    worst: float | None = 0.0
    for area, right in want.items():
        found = compare(got[area], right).max_rel
        worst = None if found is None or worst is None else max(worst, found)
    seconds = time.perf_counter() - began
    longest = max(case.reduction_lengths.values())
    allowed = allowed_error("fp32", reduction_length=longest, depth=case.depth)
    return {"error": worst, "allowed": allowed, "seconds": seconds}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
