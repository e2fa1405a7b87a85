"""Converts an exported file to int8 with ranges that real training samples show (QDQ, U8/S8).

Activations are unsigned, because ONNX Runtime makes signed ones unsigned on x86, but leaves those
in float32 that two operators read, as in residual blocks (docs/decisions/0025-unsigned.md). Weights
use 7 of their 8 bits: CPUs without VNNI add two products up in 16 bits, and 2 * 255 * 64 fits.
Source: ONNX Runtime 1.31.1, also on an emulated Haswell (docs/decisions/0026-seven-bits.md).

Shapes: N samples.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantType,
    quantize_static,
)

from worker.export.target import Arrays
from worker.export.variants.convert import quiet_quantizer
from worker.export.variants.graph import (
    list_weights,
    list_without_weights,
    load_plain,
    may_scale_channels,
    save_with_metadata,
    shorten_names,
)

METHODS = {
    "min-max": CalibrationMethod.MinMax,
    "percentile": CalibrationMethod.Percentile,
    "entropy": CalibrationMethod.Entropy,
}
CONVOLUTIONAL = [
    "Conv", "Gemm", "MatMul", "Add", "MaxPool", "AveragePool", "GlobalAveragePool", "Concat",
]  # fmt: skip
OTHERS = ["Gemm", "MatMul", "Gather"]
"""Without convolutions only products and embeddings: sums and norms of a transformer are cheap, and
int8 harms them."""
MEASURED = 24
"""Layers whose part in the loss is measured at once, those with the fewest weights first: keeping
them in float32 costs least."""
MOST_MEASURED = 96
"""Layers that are measured in all, if keeping some of the small ones is not enough."""

Rate = Callable[[Path], tuple[float, float]]
"""Scores a file on validation samples: how much worse its metric is, and its mean difference."""
Batches = Sequence[Arrays]
"""The model's inputs, batch by batch."""


@dataclass(frozen=True)
class Choice:
    """A way to quantise, and its score.

    Attributes:
        method: Calibration method, one of METHODS.
        kept: Names of layers that stay in float32.
        drop: How much worse the metric is on validation samples.
        error: Mean difference of the outputs from torch's.
    """

    method: str
    drop: float
    error: float
    kept: list[str] = field(default_factory=list)


def write_int8_static(
    source: Path,
    target: Path,
    *,
    metadata: dict[str, str],
    batches: Batches,
    rate: Rate,
    max_drop: float,
    on_file: Callable[[], None],
    kept: Sequence[str] = (),
) -> dict[str, Any]:
    """Write the file with the calibration method that scores best on the validation split.

    If even that loses more than allowed, the layers that contribute most to the loss stay in
    float32: one, then two, four, and so on, up to half of them.

    Args:
        source: The float32 file.
        target: File to write.
        metadata: Metadata of the model.
        batches: Real training samples.
        rate: Scores a file on the validation split.
        max_drop: Allowed loss of the metric.
        on_file: Called before each file, to report that the export is alive.
        kept: Names of nodes that stay in float32 in any case.

    Returns:
        How it was made, for the manifest.
    """
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".int8-") as folder:
        quantiser = _Quantiser(
            source, Path(folder), batches=batches, rate=rate, on_file=on_file, kept=kept
        )
        best = min((quantiser.score(method) for method in METHODS), key=_rank)
        if best.drop > max_drop:
            best = quantiser.keep_layers(best, max_drop=max_drop)
        quantised = load_plain(quantiser.write(best.method, best.kept))
        save_with_metadata(shorten_names(quantised), target, metadata)
    return {
        "weights": "int8, 7 bits",
        "activations": "uint8",
        "per_channel": quantiser.per_channel,
        "calibration": best.method,
        "calibration_samples": sum(len(next(iter(batch.values()))) for batch in batches),
        "validation_drop": best.drop,
        "float32_layers": best.kept,
    }


def _rank(choice: Choice) -> tuple[float, float]:
    return round(choice.drop, 4), choice.error


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    """Passes batches to the calibration, in ranges that bound its memory."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._next, self._end = 0, len(batches)

    def __len__(self) -> int:
        return len(self._batches)

    def set_range(self, start_index: int, end_index: int) -> None:
        """Choose the batches that come next."""
        self._next, self._end = start_index, min(end_index, len(self._batches))

    def get_next(self) -> Arrays | None:
        """Return the next batch, or None at the end of the range."""
        if self._next >= self._end:
            return None
        self._next += 1
        return self._batches[self._next - 1]


class _Quantiser:
    """Quantises one file in several ways; each method reads the samples only once."""

    def __init__(
        self,
        source: Path,
        folder: Path,
        *,
        batches: Batches,
        rate: Rate,
        on_file: Callable[[], None],
        kept: Sequence[str],
    ) -> None:
        model = load_plain(source)
        self._folder, self._rate, self._on_file = folder, rate, on_file
        self._batches = batches
        self.per_channel = may_scale_channels(model)
        self._source = folder / "source.onnx"
        save_with_metadata(model, self._source, {})
        self._excluded = [*list_without_weights(model), *kept]
        has_convolutions = any(node.op_type == "Conv" for node in model.graph.node)
        self._operators = CONVOLUTIONAL if has_convolutions else OTHERS
        sizes = {name: weight.size for name, weight in list_weights(model).items()}
        self.layers = sorted(sizes, key=lambda name: sizes[name])

    def write(self, method: str, kept: Sequence[str] = ()) -> Path:
        """Write the quantised file, with some layers in float32."""
        path = self._folder / "quantised.onnx"
        self._on_file()
        with quiet_quantizer():
            quantize_static(
                self._source,
                path,
                _Reader(self._batches),
                per_channel=self.per_channel,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                reduce_range=True,
                calibrate_method=METHODS[method],
                op_types_to_quantize=self._operators,
                nodes_to_exclude=[*self._excluded, *kept],
                extra_options={"CalibStridedMinMax": 1},
                calibration_cache_path=self._folder / f"{method}.json",
            )
        return path

    def score(self, method: str, kept: Sequence[str] = ()) -> Choice:
        """Quantise and score on the validation split."""
        drop, error = self._rate(self.write(method, kept))
        return Choice(method, drop, error, list(kept))

    def keep_layers(self, first: Choice, *, max_drop: float) -> Choice:
        """Keep more and more of the most sensitive layers, until the loss is allowed.

        The small layers are tried first, then also larger ones.

        Returns:
            The first choice that is good enough, or the best one.
        """
        tried, errors = [first], dict[str, float]()
        for start in range(0, min(len(self.layers), MOST_MEASURED), MEASURED):
            for name in self.layers[start : min(start + MEASURED, MOST_MEASURED)]:
                errors[name] = self.score(first.method, [name]).error
            worst_first = sorted(errors, key=lambda name: errors[name])
            num = 1
            while num <= max(1, len(errors) // 2):
                tried.append(self.score(first.method, worst_first[:num]))
                if tried[-1].drop <= max_drop:
                    return tried[-1]
                num *= 2
        return min(tried, key=_rank)


def spread(rows: NDArray[np.int64], num: int) -> NDArray[np.int64]:
    """Return at most `num` of some rows (N,), evenly spaced."""
    if len(rows) <= num:
        return rows
    return rows[np.linspace(0, len(rows) - 1, num).round().astype(np.int64)]
