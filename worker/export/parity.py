"""Holds ONNX Runtime's outputs against torch's."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.spec import Export

Logits = NDArray[np.float32]
Predict = Callable[[NDArray[np.float32]], Logits]
"""(B, C, S, S) float32 in [0, 1] -> (B, classes)."""


@dataclass(frozen=True)
class Difference:
    """How far two sets of outputs are apart.

    Attributes:
        max_abs: largest |onnx - torch|.
        relative: `max_abs` over the largest |torch|.
        agreement: share of samples whose highest output is the same.
    """

    num_samples: int
    max_abs: float
    mean_abs: float
    relative: float
    agreement: float

    def as_json(self) -> dict[str, Any]:
        """As a dict."""
        return asdict(self)


@dataclass(frozen=True)
class Verdict:
    """Whether a model passes its gate, and what it missed."""

    verified: bool
    misses: list[str]


def compare_outputs(onnx: Logits, torch_outputs: Logits) -> Difference:
    """The difference of two (N, classes) arrays; anything not finite is infinitely far."""
    distance = np.abs(onnx.astype(np.float64) - torch_outputs.astype(np.float64))
    if not np.isfinite(distance).all():
        distance = np.full_like(distance, np.inf)
    scale = max(float(np.abs(torch_outputs).max()), 1e-12)
    same = onnx.argmax(axis=1) == torch_outputs.argmax(axis=1)
    return Difference(
        num_samples=len(onnx),
        max_abs=float(distance.max()),
        mean_abs=float(distance.mean()),
        relative=float(distance.max()) / scale,
        agreement=float(same.mean()),
    )


def judge(gate: Export, *, difference: Difference, metric_drop: float) -> Verdict:
    """Hold the numbers against the spec's gate.

    Args:
        gate: the spec's `export`.
        difference: of the outputs.
        metric_drop: torch's metric minus ONNX Runtime's.
    """
    misses = []
    if not difference.relative <= gate.tolerance:
        misses.append(
            f"outputs differ by {difference.relative:.2e} of the largest one, "
            f"more than tolerance {gate.tolerance:.2e}"
        )
    if not metric_drop <= gate.max_metric_drop:
        misses.append(
            f"the metric is {metric_drop:.4f} lower under ONNX Runtime, "
            f"more than max_metric_drop {gate.max_metric_drop:.4f}"
        )
    return Verdict(verified=not misses, misses=misses)


def torch_predict(module: torch.nn.Module) -> Predict:
    """A module as a function of arrays."""

    def predict(images: NDArray[np.float32]) -> Logits:
        with torch.inference_mode():
            logits: Logits = module(torch.from_numpy(images)).numpy()
        return logits

    return predict


def onnx_predict(session: Any) -> Predict:
    """An ONNX Runtime session as a function of arrays."""
    name = session.get_inputs()[0].name

    def predict(images: NDArray[np.float32]) -> Logits:
        logits: Logits = session.run(None, {name: images})[0]
        return logits

    return predict


def predict_all(
    predict: Predict,
    pixels: NDArray[np.uint8],
    *,
    batch_size: int,
    on_batch: Callable[[], None] = lambda: None,
) -> Logits:
    """Outputs for (N, S, S, C) uint8 images, in batches; `on_batch` is called after each."""
    outputs = []
    for images in _batches(pixels, batch_size):
        outputs.append(predict(images))
        on_batch()
    return np.concatenate(outputs)


def _batches(pixels: NDArray[np.uint8], batch_size: int) -> Iterator[NDArray[np.float32]]:
    for start in range(0, len(pixels), batch_size):
        block = pixels[start : start + batch_size].astype(np.float32) / np.float32(255)
        yield np.ascontiguousarray(block.transpose(0, 3, 1, 2))
