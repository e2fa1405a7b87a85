"""The folder of files that become the job's artifacts, and the list of them."""

import json
import shutil
from pathlib import Path

from worker.jobdir import JobDir, OutputFile

KINDS: dict[str, tuple[str, str]] = {
    "model.onnx": ("model", "application/octet-stream"),
    "model-fp16.onnx": ("model", "application/octet-stream"),
    "model-int8-dynamic.onnx": ("model", "application/octet-stream"),
    "model-int8-static.onnx": ("model", "application/octet-stream"),
    "model-int8-qat.onnx": ("model", "application/octet-stream"),
    "model-text.onnx": ("model", "application/octet-stream"),
    "variants.png": ("figure", "image/png"),
    "manifest.json": ("manifest", "application/json"),
    "tokenizer.json": ("file", "application/json"),
    "parity.npz": ("parity", "application/octet-stream"),
    "metrics.csv": ("metrics", "text/csv"),
    "curves.png": ("figure", "image/png"),
    "confusion.png": ("figure", "image/png"),
    "labels.png": ("figure", "image/png"),
    "predictions.png": ("figure", "image/png"),
    "precision.png": ("figure", "image/png"),
    "iou.png": ("figure", "image/png"),
    "evaluation.json": ("file", "application/json"),
    "mistakes.png": ("figure", "image/png"),
    "worst-mistakes.png": ("figure", "image/png"),
    "calibration.png": ("figure", "image/png"),
    "report.md": ("report", "text/markdown"),
    "report.html": ("report", "text/html"),
    "benchmark.json": ("benchmark", "application/json"),
    "benchmark.png": ("figure", "image/png"),
    "checkpoint.safetensors": ("checkpoint", "application/octet-stream"),
    "trainer.log": ("log", "text/plain"),
}
"""Kind and media type of every artifact."""


class Outputs:
    """Collects the files of one job; files of an earlier attempt are removed."""

    def __init__(self, job_dir: JobDir) -> None:
        self.folder = job_dir.out_dir
        self._list_path = job_dir.outputs_path
        self._files: dict[str, OutputFile] = {}
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    @property
    def names(self) -> list[str]:
        """Names of the files added so far."""
        return list(self._files)

    def path(self, name: str) -> Path:
        """Return the path to write a file to."""
        return self.folder / name

    def add(self, name: str, *, verified: bool | None = None) -> None:
        """List a written file immediately, so that it is published even after a later failure.

        Args:
            name: One of KINDS.
            verified: Whether a model passed its gate; None for other files.
        """
        kind, media_type = KINDS[name]
        self._files[name] = OutputFile.model_validate(
            {"name": name, "kind": kind, "media_type": media_type, "verified": verified}
        )
        content = json.dumps([file.model_dump() for file in self._files.values()], indent=1)
        temporary = self._list_path.with_suffix(".tmp")
        temporary.write_text(content)
        temporary.replace(self._list_path)
