"""The worker's slots: who has one, and stopping all of them."""

import threading
from dataclasses import dataclass

from worker.agent.attempt import Bench
from worker.agent.stopping import StopReason, StopSignal


@dataclass
class Slot:
    """Room for one attempt.

    Attributes:
        stop: the running attempt's stop signal.
    """

    bench: Bench
    stop: StopSignal | None = None


class SlotPool:
    """Hands out slots to the threads that run attempts, until it is closed."""

    def __init__(self, benches: list[Bench]) -> None:
        self.slots = [Slot(bench) for bench in benches]
        self._free = list(self.slots)
        self._changed = threading.Condition()
        self._is_closed = False

    @property
    def num_busy(self) -> int:
        """Slots in which an attempt runs."""
        with self._changed:
            return sum(slot.stop is not None for slot in self.slots)

    def wait_for_free(self, timeout_seconds: float) -> bool:
        """Wait for a free slot; whether there is one."""
        with self._changed:
            self._changed.wait_for(lambda: self._free or self._is_closed, timeout_seconds)
            return bool(self._free) and not self._is_closed

    def take_free(self) -> list[Slot]:
        """All free slots, which are the caller's until they are given back."""
        with self._changed:
            if self._is_closed:
                return []
            taken, self._free = self._free, []
            return taken

    def give_back(self, *slots: Slot) -> None:
        """These slots are free again."""
        with self._changed:
            places = {id(slot): place for place, slot in enumerate(self.slots)}
            self._free = sorted([*self._free, *slots], key=lambda slot: places[id(slot)])
            self._changed.notify_all()

    def occupy(self, slot: Slot, stop: StopSignal) -> None:
        """An attempt starts in the slot; if the pool is closed, it is told so at once."""
        with self._changed:
            slot.stop = stop
            if self._is_closed:
                stop.request(StopReason.SHUTDOWN)

    def vacate(self, slot: Slot) -> None:
        """The slot's attempt has ended."""
        with self._changed:
            stop, slot.stop = slot.stop, None
        if stop is not None:
            stop.close()

    def close(self) -> None:
        """Give no more slots, and ask all attempts to stop."""
        with self._changed:
            self._is_closed = True
            for slot in self.slots:
                if slot.stop is not None:
                    slot.stop.request(StopReason.SHUTDOWN)
            self._changed.notify_all()

    def wait_until_free(self) -> None:
        """Wait until every slot was given back."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._free) == len(self.slots))
