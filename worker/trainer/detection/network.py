"""What every detector can do, so that batches, scores, previews and the export know no kind.

Shapes: B batch, C channels, S side in pixels.
"""

from abc import ABC, abstractmethod

import torch
from torch import nn

from worker.trainer.detection.selection import Found


class DetectorNetwork(nn.Module, ABC):
    """A network that finds objects; called with images (B, C, S, S), it returns (B, ...).

    Args:
        num_classes: Number of classes.
        image_size: Side of the images in pixels.
    """

    def __init__(self, *, num_classes: int, image_size: int) -> None:
        super().__init__()
        self.num_classes, self.image_size = num_classes, image_size

    @abstractmethod
    def find_compared(self, raw: torch.Tensor) -> torch.Tensor:
        """Return the part of an output (B, ...) that boxes are chosen from.

        The export compares it, because the choice between equal scores is a coin toss.
        """

    @abstractmethod
    def find_boxes(self, raw: torch.Tensor, *, threshold: float | torch.Tensor) -> Found:
        """Return the boxes that an output reports, the best first."""

    @property
    @abstractmethod
    def last_layer(self) -> nn.Module:
        """The layers whose shapes depend on the classes."""
