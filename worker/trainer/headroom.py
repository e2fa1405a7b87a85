"""Leaves part of a GPU's memory to other programs: a desktop, or a host that shares the GPU."""

import torch


def leave_headroom(device: torch.device, *, limit_bytes: int | None) -> float:
    """Limit torch's allocator to a share of the device's memory.

    Args:
        device: Device of the run.
        limit_bytes: Most memory to take; None for all of it.

    Returns:
        The share of the device's memory that the allocator may take.
    """
    if device.type != "cuda" or limit_bytes is None:
        return 1.0
    total_bytes = int(torch.cuda.get_device_properties(device).total_memory)
    fraction = min(1.0, limit_bytes / total_bytes)
    torch.cuda.set_per_process_memory_fraction(fraction, device)
    return fraction
