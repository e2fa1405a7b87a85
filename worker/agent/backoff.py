"""How long to wait before a failed request is repeated."""

import random
from dataclasses import dataclass


@dataclass
class Backoff:
    """Doubling pauses with jitter, so that many workers do not retry in step.

    Attributes:
        first_seconds: The first pause.
        cap_seconds: The longest pause.
    """

    first_seconds: float = 0.2
    cap_seconds: float = 10.0
    _next_seconds: float | None = None

    def next_seconds(self) -> float:
        """Return the pause before the next try: between half and all of the current step."""
        step = min(self._next_seconds or self.first_seconds, self.cap_seconds)
        self._next_seconds = step * 2
        return step * random.uniform(0.5, 1.0)  # noqa: S311  # jitter needs no secrecy

    def reset(self) -> None:
        """Start again from the first pause, after a successful request."""
        self._next_seconds = None
