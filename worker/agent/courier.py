"""Handing in what an attempt makes, one thing after the other, while the attempt goes on."""

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

Item = TypeVar("Item")


@dataclass
class Courier(ABC, Generic[Item]):
    """A thread that hands in what waits, the first of it first.

    Attributes:
        thread_name: what its thread is called.
        waiting: what is still to be handed in; changed under `changed`, which is then notified.
    """

    thread_name: ClassVar[str]
    waiting: list[Item] = field(default_factory=list, init=False)
    changed: threading.Condition = field(default_factory=threading.Condition, init=False)
    is_over: bool = field(default=False, init=False)
    _is_busy: bool = field(default=False, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    @abstractmethod
    def hand_in(self, item: Item) -> None:
        """Bring one thing to where it goes; told by `is_over` when to give up."""

    def start(self) -> None:
        """Hand in from now on; a second call does nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self.thread_name, daemon=True)
            self._thread.start()

    def drain(self, *, timeout_seconds: float) -> bool:
        """Wait until all that waits is handed in; whether it is."""
        with self.changed:
            return self.changed.wait_for(
                lambda: not self.waiting and not self._is_busy, timeout_seconds
            )

    def halt(self) -> None:
        """Hand nothing more in; what is on its way is waited for."""
        with self.changed:
            self.is_over = True
            self.waiting.clear()
            self.changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while (item := self._next()) is not None:
            try:
                self.hand_in(item)
            finally:
                with self.changed:
                    self._is_busy = False
                    self.changed.notify_all()

    def _next(self) -> Item | None:
        with self.changed:
            self.changed.wait_for(lambda: self.waiting or self.is_over)
            if self.is_over:
                return None
            self._is_busy = True
            return self.waiting.pop(0)
