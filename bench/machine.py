"""The measured device and its description in the figures.

The device is the first GPU if torch finds one, else the CPU. `BENCH_DEVICE=cpu` forces the CPU.
"""

import os

import torch

from worker.trainer.devices import cpu_has_bf16


def find_device() -> torch.device:
    """Return the device on which training is measured."""
    default = "cuda:0" if torch.cuda.is_available() else "cpu"
    return torch.device(os.environ.get("BENCH_DEVICE", default))


DEVICE = find_device()


def has_bf16() -> bool:
    """Whether the device multiplies bf16 natively."""
    if DEVICE.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return cpu_has_bf16()


def describe_device(threads: int | None = None) -> str:
    """Describe the measured device: the name of the GPU, or the number of CPU threads.

    Args:
        threads: Threads that computed on a CPU; torch's own number if not given.
    """
    if DEVICE.type == "cuda":
        return torch.cuda.get_device_name(DEVICE)
    return f"{torch.get_num_threads() if threads is None else threads} threads"
