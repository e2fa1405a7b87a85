"""One side of a benchmark's comparison: `python -m worker.tasks.benchmark.key_tests`.

The protocol is that of `worker.hardware.benchmark.comparison`. What is compared is the environment
that the process is started with.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from worker.hardware.benchmark.device import synchronize
from worker.hardware.benchmark.operations import NUM_CLASSES, Call, build_call
from worker.hardware.benchmark.plan import Case
from worker.hardware.benchmark.timing import count_repeats, time_once
from worker.hardware.torch_settings import apply_settings
from worker.process.lifetime import die_with_parent, leave
from worker.process.threads import yield_while_waiting
from worker.trainer.devices import open_device
from worker.trainer.models.builtin.resnet18 import ResNet18

NUM_OUTPUTS = 64
"""Most numbers of each test's result that are compared, evenly spaced."""


def main(arguments: Sequence[str], *, environ: Mapping[str, str]) -> int:
    """Serve samples until stdin ends."""
    parent = environ.get("REDKILN_PARENT_PID")
    die_with_parent(int(parent) if parent else None)
    parser = argparse.ArgumentParser(prog="python -m worker.tasks.benchmark.key_tests")
    parser.add_argument("--device", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--cases", type=json.loads, required=True)
    parser.add_argument("--settings", type=json.loads, default={})
    parser.add_argument("--layout", choices=("contiguous", "channels_last"))
    options = parser.parse_args(arguments)
    yield_while_waiting()
    device = open_device(options.device, threads=options.threads)
    _, problems = apply_settings(torch, options.settings)
    for name, why in problems.items():
        sys.stderr.write(f"{name}: {why}\n")
    cases = [Case(**item) for item in options.cases]
    if options.layout is not None:
        cases = [replace(case, layout=options.layout) for case in cases]
    calls = {case.id: _build(case, device) for case in cases}
    outputs = {name: take_outputs(call()) for name, call in calls.items()}
    _print_json({"outputs": outputs})

    def wait() -> None:
        synchronize(device)

    repeats = {
        name: count_repeats(time_once(call, 1, synchronize=wait)) for name, call in calls.items()
    }
    for _ in sys.stdin:
        seconds = {
            name: time_once(call, repeats[name], synchronize=wait) for name, call in calls.items()
        }
        _print_json({"seconds": seconds})
    return 0


def build_resnet18(side: int) -> ResNet18:
    """Build the network of the training step."""
    return ResNet18(channels=3, image_size=side, num_classes=NUM_CLASSES)


def take_outputs(result: torch.Tensor) -> list[float]:
    """Return some numbers of a result, evenly spaced."""
    flat = result.detach().flatten()
    taken = torch.linspace(0, len(flat) - 1, min(NUM_OUTPUTS, len(flat)), dtype=torch.float64)
    return [float(value) for value in flat[taken.long().to(flat.device)].double().cpu()]


def _build(case: Case, device: torch.device) -> Call:
    torch.manual_seed(0)  # the same inputs and weights in every process
    return build_call(case, device=device, build_model=build_resnet18)


def _print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    leave(main(sys.argv[1:], environ=os.environ))
