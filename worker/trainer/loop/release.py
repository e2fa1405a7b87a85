"""Frees a GPU's memory while a checkpoint is still being written."""

import gc
from collections.abc import Iterable, Mapping
from typing import cast

import torch


def copy_to_host(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors in host memory; those already there are not copied.

    The copies are queued and waited for once, so the device does not idle between them.
    """
    copies = {
        name: tensor.detach().to("cpu", non_blocking=True) for name, tensor in tensors.items()
    }
    if any(tensor.is_cuda for tensor in tensors.values()):
        torch.cuda.synchronize()
    return copies


def release_device(device: torch.device, *, among: Iterable[object] | None = None) -> int:
    """Free every tensor on a GPU, whatever refers to it; only for a process about to exit.

    Args:
        device: Device whose memory to free.
        among: Objects to search for tensors. None: all objects in this process.

    Returns:
        The number of bytes freed.
    """
    num_bytes = 0
    for item in gc.get_objects() if among is None else among:
        # Check the type itself: isinstance may run an object's own code, or import modules.
        if not issubclass(type(item), torch.Tensor):
            continue
        held = cast("torch.Tensor", item)
        for tensor in (held, held.grad if held.is_leaf else None):
            if tensor is not None and tensor.device.type == device.type:
                num_bytes += _give_up(tensor, device)
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return num_bytes


def _give_up(tensor: torch.Tensor, device: torch.device) -> int:
    # Memory that cannot be freed here is freed when the process exits. Writing the checkpoint
    # matters more.
    try:
        storage = tensor.untyped_storage()
        if storage.device.type != device.type:
            return 0  # a compiler's placeholder, which has no memory
        num_bytes = storage.nbytes()
        storage.resize_(0)
    except RuntimeError:
        return 0
    return num_bytes
