"""Leaving free what others need of a GPU's memory: a desktop, or a host that shares it."""

import torch


def leave_headroom(device: torch.device, *, limit_bytes: int | None) -> float:
    """Have torch's allocator take no more than this of the device's memory.

    Args:
        device: of the run.
        limit_bytes: None for all that there is.

    Returns:
        The share of the device's memory that it may take.
    """
    if device.type != "cuda" or limit_bytes is None:
        return 1.0
    total_bytes = int(torch.cuda.get_device_properties(device).total_memory)
    fraction = min(1.0, limit_bytes / total_bytes)
    torch.cuda.set_per_process_memory_fraction(fraction, device)
    return fraction
