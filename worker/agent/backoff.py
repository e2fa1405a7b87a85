"""How long to wait before asking again somebody who did not answer."""

import random
from dataclasses import dataclass


@dataclass
class Backoff:
    """Doubling pauses with jitter, so that many workers do not come back in step.

    Attributes:
        first_seconds: the first pause.
        cap_seconds: no pause is longer.
    """

    first_seconds: float = 0.2
    cap_seconds: float = 10.0
    _next_seconds: float | None = None

    def next_seconds(self) -> float:
        """The pause before the next try: between half and all of the current step."""
        step = min(self._next_seconds or self.first_seconds, self.cap_seconds)
        self._next_seconds = step * 2
        return step * random.uniform(0.5, 1.0)  # noqa: S311  # jitter is no secret

    def reset(self) -> None:
        """Start again from the first pause: somebody answered."""
        self._next_seconds = None
