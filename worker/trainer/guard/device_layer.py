"""What the guard asks of a device: its clock, and what its memory was used for."""

from typing import Protocol

import torch

Mark = object
"""A point in what the device was given to do."""


class DeviceLayer(Protocol):
    """A device as the guard sees it; tests have one of their own."""

    @property
    def device(self) -> torch.device:
        """Where training should run."""

    def mark(self) -> Mark:
        """A point in the device's work; the device notes the time when it gets there."""

    def seconds_between(self, start: Mark, end: Mark) -> float:
        """The device's own time between two points that it has passed."""

    def synchronize(self) -> None:
        """Wait until the device has done what it was given."""

    def allocated_bytes(self) -> int | None:
        """All that was ever allocated there, freed or not; None when nobody counts."""

    def peak_bytes(self) -> int:
        """The most that was allocated there at once."""

    def used_bytes(self) -> int:
        """The device's memory in use by anybody, as its driver says."""


class TorchDevice:
    """A GPU that torch has opened (CUDA or HIP: torch calls both `cuda`)."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def mark(self) -> Mark:
        """An event in the current stream."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self.device))
        return event

    def seconds_between(self, start: Mark, end: Mark) -> float:
        """The time between two events."""
        assert isinstance(start, torch.cuda.Event)
        assert isinstance(end, torch.cuda.Event)
        return float(start.elapsed_time(end)) / 1000

    def synchronize(self) -> None:
        """Wait for the device."""
        torch.cuda.synchronize(self.device)

    def allocated_bytes(self) -> int | None:
        """By torch's allocator, which counts nothing when its caching is switched off."""
        stats = torch.cuda.memory_stats(self.device)
        return stats.get("allocated_bytes.all.allocated") or None

    def peak_bytes(self) -> int:
        """By torch's allocator."""
        return torch.cuda.max_memory_allocated(self.device)

    def used_bytes(self) -> int:
        """By the driver."""
        free_bytes, total_bytes = torch.cuda.mem_get_info(self.device)
        return total_bytes - free_bytes
