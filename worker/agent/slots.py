"""The worker's slots: which attempt uses each, and stopping all of them."""

import threading
from dataclasses import dataclass

from worker.agent.attempt.resources import SlotResources
from worker.agent.stopping import StopReason, StopSignal


@dataclass
class Slot:
    """Room for one attempt.

    Attributes:
        stop: The running attempt's stop signal; None while the slot is free.
    """

    resources: SlotResources
    stop: StopSignal | None = None


class SlotPool:
    """Hands out slots to the threads that run attempts, until it is closed."""

    def __init__(self, all_resources: list[SlotResources]) -> None:
        self.slots = [Slot(resources) for resources in all_resources]
        self._free = list(self.slots)
        self._changed = threading.Condition()
        self._is_closed = False

    @property
    def num_busy(self) -> int:
        """Number of slots in which an attempt runs."""
        with self._changed:
            return sum(slot.stop is not None for slot in self.slots)

    def wait_for_free(self, timeout_seconds: float) -> bool:
        """Wait for a free slot; return whether there is one."""
        with self._changed:
            self._changed.wait_for(lambda: self._free or self._is_closed, timeout_seconds)
            return bool(self._free) and not self._is_closed

    def take_free(self) -> list[Slot]:
        """Take all free slots; the caller owns them until it gives them back."""
        with self._changed:
            if self._is_closed:
                return []
            taken, self._free = self._free, []
            return taken

    def give_back(self, *slots: Slot) -> None:
        """Make these slots free again."""
        with self._changed:
            places = {id(slot): place for place, slot in enumerate(self.slots)}
            self._free = sorted([*self._free, *slots], key=lambda slot: places[id(slot)])
            self._changed.notify_all()

    def occupy(self, slot: Slot, stop: StopSignal) -> None:
        """Start an attempt in the slot; if the pool is closed, ask it to stop at once."""
        with self._changed:
            slot.stop = stop
            if self._is_closed:
                stop.request(StopReason.SHUTDOWN)

    def vacate(self, slot: Slot) -> None:
        """End the slot's attempt."""
        with self._changed:
            stop, slot.stop = slot.stop, None
        if stop is not None:
            stop.close()

    def close(self) -> None:
        """Hand out no more slots, and ask all attempts to stop."""
        with self._changed:
            self._is_closed = True
            for slot in self.slots:
                if slot.stop is not None:
                    slot.stop.request(StopReason.SHUTDOWN)
            self._changed.notify_all()

    def wait_until_free(self) -> None:
        """Wait until every slot has been given back."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._free) == len(self.slots))
