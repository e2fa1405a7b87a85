"""What a model needs to be used, written into the ONNX file and into `manifest.json`."""

import hashlib
import json
from importlib import metadata
from pathlib import Path
from typing import Any

from redkiln.tasks.image_classification import Options
from redkiln.version import __version__
from worker.export.exportable import INPUT, OUTPUT
from worker.trainer.decode import DecodedFacts
from worker.trainer.pixels import RESAMPLING

FORMAT = 1
LIBRARIES = ("torch", "onnx", "onnxscript", "onnxruntime", "numpy", "pillow", "safetensors")


def preprocessing_of(options: Options, facts: DecodedFacts) -> dict[str, Any]:
    """How an image becomes the model's input, as JSON."""
    return {
        "input": INPUT,
        "output": OUTPUT,
        "dtype": "float32",
        "layout": "NCHW",
        "range": [0.0, 1.0],
        "channel_order": "grey" if options.channels == 1 else "RGB",
        "size": options.image_size,
        "resize": options.resize,
        "resampling": f"Pillow {RESAMPLING}",
        "orientation": "EXIF applied",
        "transparency": "over black",
        "normalization": "inside the graph: (images - mean) / std",
        "mean": facts.mean,
        "std": facts.std,
    }


def to_metadata(
    *, job_id: str, task: str, classes: list[str], preprocessing: dict[str, Any]
) -> dict[str, str]:
    """The ONNX file's metadata_props; values that are not plain words are JSON."""
    return {
        "redkiln_version": __version__,
        "job_id": job_id,
        "task": task,
        "classes": json.dumps(classes, ensure_ascii=False),
        "preprocessing": json.dumps(preprocessing),
    }


def build_manifest(folder: Path, names: list[str], **facts: Any) -> dict[str, Any]:
    """The manifest: the facts given, library versions, and every file's size and digest.

    Args:
        folder: where the files lie.
        names: of the files to list.
        **facts: further parts of the manifest, as JSON.
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
