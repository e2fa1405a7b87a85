"""Chooses how many batches to read ahead: more while steps wait for them and it helps.

Small batches are read several at a time, and such a group counts as one. The depth is chosen during
training from how long steps waited; no result of the training depends on it.
"""

from collections.abc import Callable

DEPTH = 2
"""Batches read ahead at first: one that is ready, and one being read."""
MOST = 16
WINDOW = 50
"""Batches after which the waiting time is judged."""
SMALL_SHARE = 0.02
"""Share of the time spent waiting for batches below which more memory is not worth it."""
HELPS = 0.8
"""If more than this share of the waiting remains, a larger depth does not help: reading is slow."""


class ReadAhead:
    """Chooses the depth.

    Args:
        depth: Initial depth; the one that an earlier job of the kind settled on.
        most: Largest depth that memory allows.
        on_settled: Called with the depth that later jobs of the kind start with.

    Attributes:
        depth: Batches to read ahead now.
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
        """Record that a group of batches was taken.

        Args:
            waited_seconds: How long the step waited for it.
            now: Seconds on any clock.
            num: Batches in the group.
        """
        if self._is_settled:
            return
        if self._num == 0:
            # The first group cannot have been read ahead.
            self._began, waited_seconds = now, 0.0
        self._num += num
        self._waited += waited_seconds
        if self._num > WINDOW:
            self._judge(self._waited / max(now - self._began, 1e-9))
            self._num, self._waited = 0, 0.0

    def start_over(self) -> None:
        """Restart the measurement after a jump: the first batch from a new place has to be read."""
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
