"""Groups of samples that are joined pair by pair (union-find)."""

import numpy as np


class Groups:
    """N samples, each alone in its group at first."""

    def __init__(self, num: int) -> None:
        self._above = np.arange(num)

    def join(self, one: int, other: int) -> None:
        """Put two samples, and all that are with them, into one group."""
        self._above[self._root(one)] = self._root(other)

    def numbers(self) -> np.ndarray:
        """Return a number (N,) int64 that the samples of a group share."""
        numbers = self._above
        while (numbers != (above := numbers[numbers])).any():
            numbers = above
        return numbers.astype(np.int64)

    def _root(self, row: int) -> int:
        above = self._above
        while above[row] != row:
            above[row] = above[above[row]]
            row = int(above[row])
        return row
