"""The peak performance of a run's device, if it is known."""

import torch

from worker.hardware.benchmark.device import find_gpus


def find_peak_tflops(device: torch.device, precision: str) -> tuple[float | None, str | None]:
    """Return the peak in 10^12 floating-point operations per second, or why it is unknown.

    Args:
        device: Device that trains.
        precision: Precision of training (`fp32`, `bf16`, `fp16`).
    """
    if device.type != "cuda":
        return None, "the peak of a CPU is unknown"
    index = device.index or 0
    gpu = find_gpus(device, num_gpus=index + 1)[index]
    peak = gpu.peak_tflops.get(precision)
    if peak is None:
        name = gpu.name or gpu.gfx or str(device)
        return None, f"the peak of {name} in {precision} is not in the table of targets"
    return peak, None
