"""A thread that uploads an attempt's products one after the other while the attempt runs."""

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

Item = TypeVar("Item")


@dataclass
class Courier(ABC, Generic[Item]):
    """A thread that uploads waiting items in order.

    Attributes:
        thread_name: Name of the thread.
        waiting: Items still to upload; changed under `changed`, which is then notified.
    """

    thread_name: ClassVar[str]
    waiting: list[Item] = field(default_factory=list, init=False)
    changed: threading.Condition = field(default_factory=threading.Condition, init=False)
    is_over: bool = field(default=False, init=False)
    _is_busy: bool = field(default=False, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    @abstractmethod
    def hand_in(self, item: Item) -> None:
        """Upload one item; stop trying when `is_over` becomes true."""

    def start(self) -> None:
        """Start uploading; a second call does nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self.thread_name, daemon=True)
            self._thread.start()

    def drain(self, *, timeout_seconds: float) -> bool:
        """Wait until every waiting item is uploaded; return whether it is."""
        with self.changed:
            return self.changed.wait_for(
                lambda: not self.waiting and not self._is_busy, timeout_seconds
            )

    def halt(self) -> None:
        """Upload nothing more, and wait for the item that is being uploaded."""
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
