"""Tries the export of the untrained model, so that hours are not spent on what cannot be exported.

The verdict follows from the architecture, the opset, our code and the library versions, not from
weights, so a good one is kept in the worker's cache and asked for by its digest. A bad one is never
kept: its cause may be the worker's.
"""

import hashlib
import json
import tempfile
from importlib import metadata
from pathlib import Path

from redkiln.failure import FailureCode
from redkiln.spec.job_spec import Export
from worker.checkpoints.checkpoint import write_durably
from worker.export.exportable import Exportable
from worker.process.failed import TrainingFailed

LIBRARIES = ("torch", "transformers", "onnx", "onnxscript", "onnxruntime")
WORKER = Path(__file__).parents[1]
CODE = Path(__file__).parent, WORKER / "tasks", WORKER / "trainer/models", WORKER / "trainer/text"


def rehearsal_key(architecture: dict[str, object], gate: Export) -> str:
    """Digest of all that the verdict depends on."""
    facts = {
        "architecture": architecture,
        "opset": gate.opset,
        "tolerance": gate.tolerance,
        "versions": {name: metadata.version(name) for name in LIBRARIES},
        "code": _code_digest(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def is_rehearsed(key: str, *, cache_dir: Path) -> bool:
    """Whether this host has seen such an export succeed."""
    return _verdict_path(key, cache_dir).exists()


def rehearse_export(
    exportable: Exportable, gate: Export, *, key: str, cache_dir: Path, threads: int
) -> float:
    """Export, load and compare, in a folder that is removed again.

    Returns:
        The relative difference found.

    Raises:
        TrainingFailed: one of the three failed, or the file runs for the traced sizes alone.
    """
    # Imported here: a job whose verdict is known never pays for the exporter's libraries.
    from worker.export.onnx_file import open_session, write_onnx
    from worker.export.parity import compare_outputs, onnx_predict, torch_predict

    inputs = {name: tensor.numpy() for name, tensor in exportable.others.items()}
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        path = Path(folder) / "model.onnx"
        write_onnx(exportable, path, opset=gate.opset, metadata={})
        session = open_session(path, threads=threads)
        try:
            ours = onnx_predict(session)(inputs)
        # The runtime's errors have no base but this; that of inputs of another size is usual.
        except Exception as error:
            first = str(error).partition("\n")[0]
            message = f"ONNX Runtime cannot run the exported file: {first}"
            raise TrainingFailed(FailureCode.EXPORT_REFUSED, message) from error
        difference = compare_outputs(ours, torch_predict(exportable.module)(inputs))
    if not difference.relative <= gate.tolerance:
        message = (
            f"the untrained model's ONNX differs from torch by {difference.relative:.2e}, "
            f"more than tolerance {gate.tolerance:.2e}"
        )
        raise TrainingFailed(FailureCode.EXPORT_REFUSED, message, **difference.as_json())
    verdict_path = _verdict_path(key, cache_dir)
    verdict_path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(verdict_path, json.dumps(difference.as_json()).encode())
    return difference.relative


def _verdict_path(key: str, cache_dir: Path) -> Path:
    return cache_dir / "rehearsals" / f"{key}.json"


def _code_digest() -> str:
    digest = hashlib.sha256()
    for folder in CODE:
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
