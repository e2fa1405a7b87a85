"""A detector of transformers behind the interface of our own: one output, boxes in pixels.

It finds objects by queries: it scores every place of an image, turns the best ones into queries,
and a decoder refines these into boxes. Each query is one object, so no boxes are suppressed.

Shapes: B batch, C channels, S side in pixels, N numbers of an output, Q queries, K classes,
M objects of an image, H numbers of the heads (`find_heads`).
"""

import re
from typing import Any, cast

import torch
from torch import nn

from redkiln.spec.dense_models import DenseModel
from worker.trainer.dense.library import build_library, load_library
from worker.trainer.detection.network import DetectorNetwork
from worker.trainer.detection.selection import Found, select_boxes
from worker.trainer.models.hub import PretrainedFiles
from worker.trainer.queries.heads import find_heads
from worker.trainer.queries.loss import compute_alone, list_labels, make_exact
from worker.trainer.queries.tracing import forget_hooks, make_traceable

OF_CLASSES = re.compile(r"class_embed|enc_score_head")
"""Names of layers whose shapes depend on the classes."""


class QueryDetector(DetectorNetwork):
    """A detector of transformers.

    Attributes:
        num_classes: Number of classes.
        image_size: Side of the images in pixels.

    Args:
        model: A resolved model with its whole configuration.
        num_classes: Number of classes.

    Raises:
        TrainingFailed: the library cannot build it.
    """

    def __init__(self, model: DenseModel, *, num_classes: int) -> None:
        assert model.options.image_size != "auto"
        super().__init__(num_classes=num_classes, image_size=model.options.image_size)
        self.num_queries = int(model.config["num_queries"])
        self.network = _adopt(self._build(model))

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of, which another process may get."""
        forget_hooks(self.network)
        return cast("dict[str, Any]", super().__getstate__())  # type: ignore[no-untyped-call]

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy, which another process may have sent."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        make_traceable(self.network)

    def forward(self, images: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        """Detect objects, and compare them with targets.

        Args:
            images: (B, C, S, S), normalised.
            targets: (B, M, 5), label and box in pixels; None to find objects only.

        Returns:
            In training (B, 1), the mean loss. Otherwise (B, 1 + N): the loss, or 0 without targets;
            the heads (B, H); and logits of classes and box of each query (B, Q * (K + 4)).
        """
        labels = None if targets is None else list_labels(targets, image_size=self.image_size)
        outputs = self.network(pixel_values=images, labels=labels)
        column: torch.Tensor = images.new_zeros((images.shape[0], 1), dtype=torch.float32)
        if labels is not None:
            column = column + outputs.loss
            if self.training:
                return column
        queries = torch.cat([outputs.logits, outputs.pred_boxes], dim=-1).flatten(1)
        return torch.cat([column, find_heads(self.network, outputs), queries], dim=1)

    @property
    def inner(self) -> Any:
        """The library's network without the layers that answer."""
        return self.network.model

    @property
    def backbone(self) -> nn.Module:
        """The part that a classifier has, too."""
        model = self.inner
        return cast("nn.Module", getattr(model, "backbone", None) or model.conv_encoder)

    @property
    def last_layer(self) -> nn.Module:
        """The layers whose shapes depend on the classes."""
        return nn.ModuleList(
            module
            for name, module in self.network.named_modules()
            if OF_CLASSES.search(name.rpartition(".")[2])
        )

    def find_compared(self, raw: torch.Tensor) -> torch.Tensor:
        """Return the heads (B, H) of an output."""
        return raw[:, 1 : -self.num_queries * (self.num_classes + 4)]

    def find_boxes(self, raw: torch.Tensor, *, threshold: float | torch.Tensor) -> Found:
        """Return the boxes of the best queries; see `select_boxes`."""
        return select_boxes(*self.decode(raw), threshold=threshold, is_suppressed=False)

    def decode(self, raw: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Turn an output into boxes (B, Q, 4) in pixels and scores (B, Q, K) in [0, 1]."""
        width = self.num_classes + 4
        queries = raw[:, -self.num_queries * width :].reshape(-1, self.num_queries, width)
        centres, sides = queries[..., -4:-2], queries[..., -2:]
        boxes = torch.cat([centres - sides / 2, centres + sides / 2], dim=-1) * self.image_size
        return boxes.clamp(0, self.image_size), queries[..., :-4].sigmoid()

    def load_pretrained(self, files: PretrainedFiles) -> list[str]:
        """Load pretrained weights; layers for other classes stay random.

        Returns:
            Names of the weights that stay random.

        Raises:
            TrainingFailed: other weights do not fit.
        """
        loaded, new = load_library(self.network, files, of_classes=OF_CLASSES)
        self.network = _adopt(loaded)
        return new

    def _build(self, model: DenseModel) -> Any:
        from transformers import AutoModelForObjectDetection

        return build_library(AutoModelForObjectDetection, model, num_classes=self.num_classes)


class QueryLoss:
    """The mean loss of outputs (B, 1 + N), which the detector itself has computed."""

    def __call__(self, raw: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Return the mean loss, with gradients."""
        return raw[:, 0].mean()


def _adopt(network: Any) -> Any:
    """Return a network of the library that computes its loss exactly and can be traced."""
    compute_alone()
    network.loss_function = make_exact(network.loss_function)
    make_traceable(network)
    return network
