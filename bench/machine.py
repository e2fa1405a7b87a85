"""The machine that is measured: the device that its figures are of, and how they name it.

The first GPU where torch finds one, else the CPU; `BENCH_DEVICE=cpu` asks for the CPU all the same.
"""

import os

import torch

from worker.trainer.devices import cpu_has_bf16


def find_device() -> torch.device:
    """Where training is measured."""
    default = "cuda:0" if torch.cuda.is_available() else "cpu"
    return torch.device(os.environ.get("BENCH_DEVICE", default))


DEVICE = find_device()


def has_bf16() -> bool:
    """Whether the device multiplies bf16 itself."""
    if DEVICE.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return cpu_has_bf16()


def describe_device(threads: int | None = None) -> str:
    """What stands behind a figure.

    Args:
        threads: that computed, where it is a CPU; torch's own number if not given.
    """
    if DEVICE.type == "cuda":
        return torch.cuda.get_device_name(DEVICE)
    return f"{torch.get_num_threads() if threads is None else threads} threads"
