"""Giving a GPU's memory back while a checkpoint is still being written."""

import gc
from collections.abc import Iterable, Mapping
from typing import cast

import torch


def copy_to_host(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors in host memory; what lies there already is not copied.

    The copies are queued and waited for once: the device does not idle between them.
    """
    copies = {
        name: tensor.detach().to("cpu", non_blocking=True) for name, tensor in tensors.items()
    }
    if any(tensor.is_cuda for tensor in tensors.values()):
        torch.cuda.synchronize()
    return copies


def release_device(device: torch.device, *, among: Iterable[object] | None = None) -> int:
    """Give up every tensor on a GPU, whoever holds it; only a process that leaves may do so.

    Args:
        device: whose memory is wanted.
        among: where tensors are looked for; everything that this process knows of, if None.

    Returns:
        The bytes that were given up.
    """
    num_bytes = 0
    for item in gc.get_objects() if among is None else among:
        # By its type: asking isinstance, an object may answer whatever it likes, or import things.
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
    # What does not part with its memory goes with the process: the checkpoint that is still to be
    # written matters more.
    try:
        storage = tensor.untyped_storage()
        if storage.device.type != device.type:
            return 0  # a compiler's stand-in, which has no memory
        num_bytes = storage.nbytes()
        storage.resize_(0)
    except RuntimeError:
        return 0
    return num_bytes
