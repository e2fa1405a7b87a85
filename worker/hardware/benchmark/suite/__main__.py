"""`python -m worker.hardware.benchmark.suite`: run the suite; prints the result as JSON.

`python -m worker.hardware bench --suite ai` starts it with the patches for the GPU.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import torch

from redkiln.views.hardware import GpuFacts
from redkiln.views.suite import FILE_NAME, SuiteResult
from worker.hardware.benchmark.device import describe_machine, find_gpus
from worker.hardware.benchmark.suite.energy import ReadPower, cpu_power, gpu_power
from worker.hardware.benchmark.suite.measure import SuiteSetup, measure_suite
from worker.hardware.benchmark.suite.roofline import draw_roofline
from worker.hardware.benchmark.suite.workloads import NETWORKS, list_workloads
from worker.hardware.facts.cards import find_device_dir

PICTURE = "roofline.png"
SECONDS = {"full": 8.0, "cpu": 4.0, "quick": 0.2}


def main(arguments: Sequence[str]) -> int:
    """Run the workloads, save files if asked, and print the result as JSON."""
    options = _parse(arguments)
    device = torch.device(options.device or ("cuda:0" if torch.cuda.is_available() else "cpu"))
    if options.threads:
        torch.set_num_threads(options.threads)
    is_gpu = device.type == "cuda"
    sizes: Literal["full", "cpu", "quick"] = (
        "quick" if options.quick else "full" if is_gpu or options.full else "cpu"
    )
    gpus = find_gpus(device, num_gpus=1) if is_gpu else []
    setup = SuiteSetup(
        device=device,
        precision=options.precision or ("fp16" if is_gpu else "fp32"),
        seconds=options.seconds or SECONDS[sizes],
        read_power=_find_power(gpus, is_gpu=is_gpu),
        clock=time.process_time if options.cpu_time else time.perf_counter,
        with_providers=options.onnx,
    )
    chosen = [w for w in list_workloads(sizes=sizes) if w.network in options.networks]
    gpu = gpus[0] if gpus else GpuFacts()
    result = SuiteResult(
        at=datetime.now(UTC),
        sizes=sizes,
        precision=setup.precision,
        machine=describe_machine(device, gpus=gpus),
        tests=[],
        peak_tflops=gpu.peak_tflops.get(setup.precision),
        source=options.source,
        peak_bytes_per_second=gpu.memory_bandwidth_bytes_per_second,
    )
    for test in measure_suite(chosen, setup, say=_say):
        result = result.model_copy(update={"tests": [*result.tests, test]})
        _save(result, options.out)  # a library that ends the process does not take the rest along
    if options.out is not None:
        os.environ.setdefault("MPLBACKEND", "agg")
        draw_roofline(result, options.out / PICTURE)
    sys.stdout.write(result.model_dump_json(indent=1) + "\n")
    return 0


def _save(result: SuiteResult, folder: Path | None) -> None:
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE_NAME).write_text(result.model_dump_json(indent=1) + "\n")


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m worker.hardware.benchmark.suite")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that it runs")
    parser.add_argument("--full", action="store_true", help="the GPU's sizes on a CPU too")
    parser.add_argument("--device", help="torch device")
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="count this process's processor time alone; for one thread of a CPU",
    )
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--precision", choices=["fp32", "fp16", "bf16"])
    parser.add_argument("--seconds", type=float, help="seconds for each workload")
    parser.add_argument("--source", default="", help="author and method, to pass the result on")
    parser.add_argument("--onnx", action="store_true", help="also ONNX Runtime's providers")
    parser.add_argument("--networks", nargs="*", default=NETWORKS, choices=NETWORKS)
    parser.add_argument("--out", type=Path, metavar="DIR")
    options = parser.parse_args(arguments)
    if options.cpu_time and (options.device != "cpu" or options.threads != 1):
        parser.error("--cpu-time needs --device cpu --threads 1")
    return options


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _find_power(gpus: Sequence[GpuFacts], *, is_gpu: bool) -> ReadPower | None:
    if not is_gpu:
        return cpu_power()
    folder = find_device_dir(gpus[0].card) if gpus else None
    return gpu_power(folder) if folder else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
