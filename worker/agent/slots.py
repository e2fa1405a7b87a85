"""The worker's slots: who has one, and stopping all of them."""

import threading
from dataclasses import dataclass

from worker.agent.attempt import Bench
from worker.agent.stopping import StopReason, StopSignal


@dataclass
class Slot:
    """Room for one attempt.

    Attributes:
        claim_id: of a claim whose answer did not arrive; it has to be asked for again, as the
            service may have given an attempt.
        stop: the running attempt's stop signal.
    """

    bench: Bench
    claim_id: str | None = None
    stop: StopSignal | None = None


class SlotPool:
    """Hands out slots to the threads that run attempts, until it is closed."""

    def __init__(self, benches: list[Bench]) -> None:
        self.slots = [Slot(bench) for bench in benches]
        self._free = list(self.slots)
        self._changed = threading.Condition()
        self._is_closed = False

    def take(self, *, timeout_seconds: float = 0.0) -> Slot | None:
        """A free slot; None if there is none in time, or no more are given."""
        with self._changed:
            self._changed.wait_for(lambda: self._free or self._is_closed, timeout_seconds)
            return None if self._is_closed or not self._free else self._free.pop(0)

    def give_back(self, slot: Slot) -> None:
        """The slot is free again."""
        with self._changed:
            self._free.append(slot)
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
