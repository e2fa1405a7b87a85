"""The metrics of a run so far, kept in its checkpoints: curves survive a change of worker."""

import math

import torch

MAX_LOSS_POINTS = 20_000
"""Points of the loss curve; longer runs average over as many steps as it takes."""

Points = list[tuple[int, float]]


class History:
    """Every metric's points in rising steps."""

    def __init__(self) -> None:
        self.series: dict[str, Points] = {}

    def add(self, name: str, step: int, value: float) -> None:
        """Append a point."""
        self.series.setdefault(name, []).append((step, value))

    def newest(self) -> dict[str, float]:
        """The last value of each metric."""
        return {name: points[-1][1] for name, points in self.series.items()}

    def to_tensors(self) -> dict[str, torch.Tensor]:
        """As `<name>` -> (2, N) float64, steps over values; exact below 2^53 steps."""
        return {
            name: torch.tensor(points, dtype=torch.float64).t().contiguous()
            for name, points in self.series.items()
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, torch.Tensor]) -> "History":
        """What `to_tensors` gave."""
        history = cls()
        for name, tensor in tensors.items():
            steps, values = tensor.tolist()
            history.series[name] = [
                (int(step), value) for step, value in zip(steps, values, strict=True)
            ]
        return history


class LossCurve:
    """Means of the loss over windows of equal length, whose bounds depend on the step alone."""

    def __init__(self, *, steps: int, window_sum: float = 0.0, window_count: int = 0) -> None:
        self.window = math.ceil(steps / MAX_LOSS_POINTS)
        self.window_sum = window_sum
        self.window_count = window_count

    def add(self, loss: float, *, step: int) -> float | None:
        """Take the loss of a step (counted from 1); the mean, when the step closes a window.

        One that is not finite, of a step that was left out, does not count.
        """
        if math.isfinite(loss):
            self.window_sum += loss
            self.window_count += 1
        if step % self.window or not self.window_count:
            return None
        mean = self.window_sum / self.window_count
        self.window_sum, self.window_count = 0.0, 0
        return mean
