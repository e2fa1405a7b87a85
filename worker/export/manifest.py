"""What a model's users need to know, written into the ONNX file and into `manifest.json`."""

import hashlib
import json
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from redkiln.version import __version__

FORMAT = 1
LIBRARIES = ("torch", "onnx", "onnxscript", "onnxruntime", "numpy", "pillow", "safetensors")


def to_metadata(
    *, job_id: str, task: str, output: Mapping[str, Any], preprocessing: dict[str, Any]
) -> dict[str, str]:
    """Return the ONNX file's metadata_props; values other than plain words are JSON.

    Args:
        job_id: Job that produced the model.
        task: Task in the spec.
        output: Meaning of the output: `classes`, or the `target`.
        preprocessing: How a sample becomes the inputs.
    """
    return {
        "redkiln_version": __version__,
        "job_id": job_id,
        "task": task,
        **{name: json.dumps(value, ensure_ascii=False) for name, value in output.items()},
        "preprocessing": json.dumps(preprocessing),
    }


def build_manifest(folder: Path, names: list[str], **facts: Any) -> dict[str, Any]:
    """Build the manifest: the given facts, library versions, and size and digest of every file.

    Args:
        folder: Folder of the files.
        names: Names of the files to list.
        **facts: Further parts of the manifest, as JSON.
    """
    return {
        "format": FORMAT,
        "redkiln": __version__,
        **facts,
        "versions": {name: metadata.version(name) for name in LIBRARIES},
        "files": {name: _describe(folder / name) for name in names},
    }


def _describe(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"sha256": digest, "size_bytes": path.stat().st_size}
