"""What the guard reads from a device: its clock, and the use of its memory."""

from typing import Protocol

import torch

Mark = object
"""A point in the device's queue of work."""


class DeviceLayer(Protocol):
    """A device as the guard sees it; tests implement their own."""

    @property
    def device(self) -> torch.device:
        """Device that training should run on."""

    def mark(self) -> Mark:
        """Return a point in the device's queue; the device records when it reaches it."""

    def seconds_between(self, start: Mark, end: Mark) -> float:
        """Return the device's own time between two points that it has passed."""

    def synchronize(self) -> None:
        """Wait until the device has finished its queued work."""

    def allocated_bytes(self) -> int | None:
        """Return the total of all allocations, freed or not; None if nothing counts them."""

    def peak_bytes(self) -> int:
        """Return the most memory that was allocated at once."""

    def used_bytes(self) -> int:
        """Return the device's memory in use by all programs, according to its driver."""


class TorchDevice:
    """A GPU opened by torch, which calls both CUDA and HIP `cuda`."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def mark(self) -> Mark:
        """Return an event in the current stream."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self.device))
        return event

    def seconds_between(self, start: Mark, end: Mark) -> float:
        """Return the time between two events."""
        assert isinstance(start, torch.cuda.Event)
        assert isinstance(end, torch.cuda.Event)
        return float(start.elapsed_time(end)) / 1000

    def synchronize(self) -> None:
        """Wait for the device."""
        torch.cuda.synchronize(self.device)

    def allocated_bytes(self) -> int | None:
        """Return the total from torch's allocator, which counts nothing if caching is off."""
        stats = torch.cuda.memory_stats(self.device)
        return stats.get("allocated_bytes.all.allocated") or None

    def peak_bytes(self) -> int:
        """Return the peak from torch's allocator."""
        return torch.cuda.max_memory_allocated(self.device)

    def used_bytes(self) -> int:
        """Return the use according to the driver."""
        free_bytes, total_bytes = torch.cuda.mem_get_info(self.device)
        return total_bytes - free_bytes
