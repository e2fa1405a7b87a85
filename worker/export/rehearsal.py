"""Exports the untrained model first, so that no time is spent on a model that cannot be exported.

The verdict depends on the architecture, the opset, our code and the library versions, but not on
weights, so a success is kept in the worker's cache under their digest. A failure is never kept,
because its cause may be the worker.
"""

import copy
import hashlib
import json
import tempfile
from dataclasses import replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from redkiln.failure import FailureCode
from redkiln.spec.exports import Export
from worker.checkpoints.checkpoint import write_durably
from worker.export.exportable import Exportable
from worker.process.failed import TrainingFailed

LIBRARIES = ("torch", "torchao", "transformers", "onnx", "onnxscript", "onnxruntime")
WORKER = Path(__file__).parents[1]
CODE = [WORKER / name for name in ("export", "onnx_module", "qat", "tasks")]
CODE += [
    WORKER / "trainer" / name
    for name in ("models", "text", "dense", "detection", "queries", "instances", "segmentation")
]
CODE.append(WORKER.parent / "redkiln/predict")
"""Folders that make networks, write ONNX files, or run and compare them."""
NOISE = 4.0
"""Allowed difference of a model with answers, in multiples of torch's own rounding. Untrained, such
a model can depend on near ties, which no runtime decides like another."""

ALIVE = 1e-3
"""Smallest share of the largest output by which outputs for different inputs must differ."""
TINY = 1e-12
"""Smallest spread that is divided by."""


def rehearsal_key(architecture: dict[str, object], gate: Export) -> str:
    """Return a digest of everything that the verdict depends on."""
    facts = {
        "architecture": architecture,
        "opset": gate.opset,
        "tolerance": gate.tolerance,
        "versions": {name: metadata.version(name) for name in LIBRARIES},
        "code": _code_digest(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def is_rehearsed(key: str, *, cache_dir: Path) -> bool:
    """Return whether such an export has succeeded on this host."""
    return _verdict_path(key, cache_dir).exists()


def rehearse_export(
    exportable: Exportable, gate: Export, *, key: str, cache_dir: Path, threads: int
) -> float:
    """Export, load and compare in a temporary folder.

    Returns:
        The relative difference of the outputs.

    Raises:
        TrainingFailed: one of these failed, or the file runs only for the traced sizes.
    """
    # Imported here, so that a job with a known verdict does not load the exporter's libraries.
    from worker.export.onnx_file import open_session, write_onnx
    from worker.export.parity import compare_outputs, onnx_predict

    inputs = {name: tensor.numpy() for name, tensor in exportable.others.items()}
    exportable = _wake(exportable, inputs)
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        path = Path(folder) / "model.onnx"
        write_onnx(exportable, path, opset=gate.opset, metadata={})
        session = open_session(path, threads=threads)
        try:
            ours = onnx_predict(session, exportable.answers)(inputs)
            if exportable.answers is not None:
                compared = open_session(path, threads=threads, compared=exportable.output)
                ours = onnx_predict(compared)(inputs)
        # The runtime's errors have only this class in common; inputs of another size are typical.
        except Exception as error:
            first = str(error).partition("\n")[0]
            message = f"ONNX Runtime cannot run the exported file: {first}"
            raise TrainingFailed(FailureCode.EXPORT_REFUSED, message) from error
        difference = compare_outputs(ours, exportable.predict_compared(inputs))
    allowed = gate.tolerance
    if exportable.answers is not None:
        allowed = max(allowed, NOISE * exportable.measure_noise(inputs))
    if not difference.relative <= allowed:
        message = (
            f"the untrained model's ONNX outputs differ from torch's by {difference.relative:.2e}, "
            f"more than tolerance {allowed:.2e}; raise export.tolerance or use another model"
        )
        raise TrainingFailed(FailureCode.EXPORT_REFUSED, message, **difference.as_json())
    keep_verdict(key, cache_dir=cache_dir, facts=difference.as_json())
    return difference.relative


def _wake(exportable: Exportable, inputs: dict[str, NDArray[Any]]) -> Exportable:
    """Return a model whose output depends on its inputs, so that comparing it proves something.

    In a new model with many layers the signal can vanish, so that its last layer returns constants.
    Its copy has weights that keep the spread of the signal at 1 in each layer, one after the other.

    Source: Mishkin and Matas, All you need is a good init, arXiv:1511.06422.
    """
    found = exportable.predict_compared(inputs)
    if len(found) == 1 or np.ptp(found, axis=0).max() > ALIVE * np.abs(found).max():
        return exportable
    awake = replace(exportable, module=copy.deepcopy(exportable.module))
    generator = torch.Generator().manual_seed(0)
    hooks = [
        layer.register_forward_hook(partial(_spread, generator=generator))
        for layer in awake.module.modules()
        if isinstance(layer, nn.Conv2d | nn.Linear)
    ]
    awake.predict_compared(inputs)
    for hook in hooks:
        hook.remove()
    return awake


def _spread(
    layer: nn.Module,
    given: tuple[torch.Tensor],
    output: torch.Tensor,
    *,
    generator: torch.Generator,
) -> torch.Tensor:
    """Scale the weight of a layer so that its output, without the bias, has a spread of 1."""
    assert isinstance(layer, nn.Conv2d | nn.Linear)
    if not layer.weight.any():
        layer.weight.normal_(generator=generator)
        output = layer.forward(*given)
    ones = [1] * (layer.weight.ndim - 2)
    bias = torch.zeros(()) if layer.bias is None else layer.bias.view(-1, *ones)
    spread = (output - bias).std().clamp(min=TINY)
    layer.weight.div_(spread)
    return bias + (output - bias) / spread


def keep_verdict(key: str, *, cache_dir: Path, facts: dict[str, object]) -> None:
    """Keep that an export has succeeded on this host, with facts for people."""
    verdict_path = _verdict_path(key, cache_dir)
    verdict_path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(verdict_path, json.dumps(facts).encode())


def _verdict_path(key: str, cache_dir: Path) -> Path:
    return cache_dir / "rehearsals" / f"{key}.json"


def _code_digest() -> str:
    digest = hashlib.sha256()
    for folder in CODE:
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
