"""All state that the next step depends on: saved in checkpoints and restored from them."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from worker.checkpoints.checkpoint import READING, Checkpoint
from worker.checkpoints.history import History, LossCurve
from worker.trainer.optim.ema import Ema
from worker.trainer.optim.optimizer import AnyOptimizer, load_optimizer_tensors, optimizer_tensors
from worker.trainer.optim.scaling import LossScaling


@dataclass
class TrainingState:
    """The state of a run. The sampler's position depends only on the step.

    Attributes:
        ema: Moving average of the weights, or None.
        reading: `TrainingSetup.reading`; it never changes.
        step: Optimiser updates done.
        evaluated_step: Step of the last evaluation.
        best_metrics: Metrics of the best evaluation so far.
        num_rollbacks: How often training went back after diverging.
    """

    model: nn.Module
    optimizer: AnyOptimizer
    scaling: LossScaling
    curve: LossCurve
    ema: Ema | None
    device: torch.device
    reading: str | None = None
    history: History = field(default_factory=History)
    step: int = 0
    evaluated_step: int = 0
    best_metrics: dict[str, float] | None = None
    num_rollbacks: int = 0

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return all tensors of the state, on their devices."""
        optimizer = optimizer_tensors(self.model, self.optimizer)
        tensors = {
            **{f"model/{k}": v for k, v in self.model.state_dict().items()},
            **{f"optimizer/{k}": v for k, v in optimizer.items()},
            **{f"history/{k}": v for k, v in self.history.to_tensors().items()},
            "rng/cpu": torch.get_rng_state(),
        }
        if self.ema is not None:
            tensors |= {f"ema/{k}": v for k, v in self.ema.tensors().items()}
        if self.reading is not None:
            content = bytearray(self.reading.encode())
            tensors[READING] = torch.frombuffer(content, dtype=torch.uint8)
        if self.device.type == "cuda":
            tensors["rng/cuda"] = torch.cuda.get_rng_state(self.device)
        return tensors

    def values(self) -> dict[str, Any]:
        """Return the rest as JSON. Losses and skipped steps must have been read before."""
        return {
            "evaluated_step": self.evaluated_step,
            "best_metrics": self.best_metrics,
            "window_sum": self.curve.window_sum,
            "window_count": self.curve.window_count,
            "scaling": self.scaling.state(),
            "num_rollbacks": self.num_rollbacks,
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state from a checkpoint."""
        values = checkpoint.manifest.state
        self.model.load_state_dict(checkpoint.tensors_of("model"))
        load_optimizer_tensors(self.model, self.optimizer, checkpoint.tensors_of("optimizer"))
        if self.ema is not None:
            self.ema.load(checkpoint.tensors_of("ema"))
        generators = checkpoint.tensors_of("rng")
        torch.set_rng_state(generators["cpu"])
        if self.device.type == "cuda" and "cuda" in generators:
            torch.cuda.set_rng_state(generators["cuda"], self.device)
        self.history = History.from_tensors(checkpoint.tensors_of("history"))
        # Fine-tuning after the training has counted on (worker.trainer.fine_tuning).
        self.step = values.get("trained_steps", checkpoint.manifest.step)
        self.evaluated_step = values["evaluated_step"]
        self.best_metrics = values["best_metrics"]
        # Checkpoints of earlier releases have no such entry.
        self.num_rollbacks = values.get("num_rollbacks", 0)
        if "scaling" in values:
            self.scaling.restore(values["scaling"])
        self.curve.window_sum = values["window_sum"]
        self.curve.window_count = values["window_count"]
