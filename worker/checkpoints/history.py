"""The metrics of a run so far, saved in its checkpoints so that another worker can continue them.

Shapes: N points of a metric.
"""

import math

import torch

MAX_LOSS_POINTS = 20_000
"""Most points of the loss curve; in longer runs each point averages several steps."""

Points = list[tuple[int, float]]


class History:
    """Every metric's points by rising step."""

    def __init__(self) -> None:
        self.series: dict[str, Points] = {}

    def add(self, name: str, step: int, value: float) -> None:
        """Append a point."""
        self.series.setdefault(name, []).append((step, value))

    def newest(self) -> dict[str, float]:
        """Return the last value of each metric."""
        return {name: points[-1][1] for name, points in self.series.items()}

    def to_tensors(self) -> dict[str, torch.Tensor]:
        """Return (2, N) float64 tensors by name, steps over values; exact below 2^53 steps."""
        return {
            name: torch.tensor(points, dtype=torch.float64).t().contiguous()
            for name, points in self.series.items()
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, torch.Tensor]) -> "History":
        """Build a history from the result of `to_tensors`."""
        history = cls()
        for name, tensor in tensors.items():
            steps, values = tensor.tolist()
            history.series[name] = [
                (int(step), value) for step, value in zip(steps, values, strict=True)
            ]
        return history


class LossCurve:
    """Means of the loss over windows of equal length, whose bounds depend only on the step."""

    def __init__(self, *, steps: int, window_sum: float = 0.0, window_count: int = 0) -> None:
        self.window = math.ceil(steps / MAX_LOSS_POINTS)
        self.window_sum = window_sum
        self.window_count = window_count

    def add(self, loss: float, *, step: int) -> float | None:
        """Add the loss of a step (counted from 1); return the mean if the step closes a window.

        A loss that is not finite, from a skipped step, does not count.
        """
        if math.isfinite(loss):
            self.window_sum += loss
            self.window_count += 1
        if step % self.window or not self.window_count:
            return None
        mean = self.window_sum / self.window_count
        self.window_sum, self.window_count = 0.0, 0
        return mean
