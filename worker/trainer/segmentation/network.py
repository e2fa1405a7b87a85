"""What every segmenter has, so that batches, scores, previews and the export know no kind."""

from abc import ABC, abstractmethod

from torch import nn


class SegmenterNetwork(nn.Module, ABC):
    """A network that maps images (B, C, S, S) to logits (B, K, S, S).

    Args:
        num_classes: Number of classes, K.
        image_size: Side of the images in pixels, S.
    """

    def __init__(self, *, num_classes: int, image_size: int) -> None:
        super().__init__()
        self.num_classes, self.image_size = num_classes, image_size

    @property
    @abstractmethod
    def last_layer(self) -> nn.Module:
        """The layer whose shape depends on the classes."""
