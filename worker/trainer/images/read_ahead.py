"""How many batches are read ahead of training: more where steps wait for them, while that helps.

Small batches are read several at a time, and such a group counts as one.

It is chosen while a job trains, by what its steps waited; no number of the training depends on it.
"""

from collections.abc import Callable

DEPTH = 2
"""Batches read ahead: one that is ready, and one being read."""
MOST = 16
WINDOW = 50
"""Batches after which it is looked how long steps waited for them."""
SMALL_SHARE = 0.02
"""Of the time, waited for batches: less is not worth more memory."""
HELPS = 0.8
"""A larger depth that leaves more than this of the waiting does not help: it is the reading."""


class ReadAhead:
    """Chooses the depth.

    Args:
        depth: to begin with; what an earlier job of the kind settled on.
        most: that the memory allows.
        on_settled: told the depth that further jobs of the kind begin with.

    Attributes:
        depth: batches that are to be read ahead now.
    """

    def __init__(
        self, depth: int = DEPTH, *, most: int = MOST, on_settled: Callable[[int], None]
    ) -> None:
        self.depth = max(1, min(depth, most))
        self._most = most
        self._on_settled = on_settled
        self._share_before: float | None = None
        self._is_settled = False
        self._num = 0
        self._began = 0.0
        self._waited = 0.0

    def note(self, *, waited_seconds: float, now: float, num: int = 1) -> None:
        """What was read ahead at once was taken.

        Args:
            waited_seconds: that the step waited for it.
            now: seconds on any clock.
            num: batches in it.
        """
        if self._is_settled:
            return
        if self._num == 0:
            # Nobody could have read the first one ahead.
            self._began, waited_seconds = now, 0.0
        self._num += num
        self._waited += waited_seconds
        if self._num > WINDOW:
            self._judge(self._waited / max(now - self._began, 1e-9))
            self._num, self._waited = 0, 0.0

    def start_over(self) -> None:
        """Batches are read from another place on: the first of them is waited for."""
        self._num, self._waited = 0, 0.0

    def _judge(self, share: float) -> None:
        if share <= SMALL_SHARE:
            self._settle(self.depth)
        elif self._share_before is not None and share > HELPS * self._share_before:
            self._settle(max(1, self.depth // 2))
        elif self.depth >= self._most:
            self._settle(self.depth)
        else:
            self._share_before = share
            self.depth = min(2 * self.depth, self._most)

    def _settle(self, depth: int) -> None:
        self.depth = depth
        self._is_settled = True
        self._on_settled(depth)
