"""What an exported file says about itself: its task, its classes, and how inputs are prepared."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redkiln.errors import ModelError

MODEL = "model.onnx"
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Description:
    """An exported model, as its metadata and its manifest describe it.

    Attributes:
        path: The ONNX file.
        task: Task of the job that trained it.
        job_id: Id of the job; empty if the file does not say.
        classes: Class names in the order of the logits; empty for a regression.
        target: Name of the predicted column of a regression; empty for a classifier.
        preprocessing: How a sample becomes the model's inputs.
        manifest: The manifest next to the file; empty without one.
        detection: How a detector chooses boxes; None for other models.
        segmentation: Meaning of a segmenter's masks; None for other models.
        thresholds: Probability from which each class is a label, if a sample can have several;
            None if each sample has one class.
    """

    path: Path
    task: str
    job_id: str
    classes: list[str]
    target: str
    preprocessing: dict[str, Any]
    manifest: dict[str, Any] = field(default_factory=dict, repr=False)
    thresholds: list[float] | None = None
    detection: dict[str, Any] | None = None
    segmentation: dict[str, Any] | None = None

    @property
    def is_regression(self) -> bool:
        """Whether the model predicts a number."""
        return not self.classes

    @property
    def has_dominant_class(self) -> bool:
        """Whether the report judges the model by macro F1, because one class dominates."""
        found = self.manifest.get("comparison") or {}
        return bool(found.get("metric") == "test/macro_f1")

    @property
    def mask_square(self) -> int | None:
        """Side of the model's square in pixels, if it finds a mask for each object."""
        known = self.preprocessing
        return int(known["size"]) if "mask_side" in known else None

    @property
    def output(self) -> str:
        """Name of the model's output."""
        return str(self.preprocessing["output"])

    @property
    def verified(self) -> bool | None:
        """Whether the export found the file to agree with the model; None without a manifest."""
        described = self.variant or self.manifest.get("verification", {})
        verdict: bool | None = described.get("verified")
        return verdict

    @property
    def variant(self) -> dict[str, Any] | None:
        """Entry of the manifest for this file as a variant in lower precision, or None.

        The float32 file has its own entry, `verification`.
        """
        for entry in self.manifest.get("variants", []):
            if entry["file"] == self.path.name and entry["name"] != "fp32":
                known: dict[str, Any] = entry
                return known
        return None


def describe(path: Path, metadata: dict[str, str]) -> Description:
    """Read a description from a file's metadata and the manifest next to it.

    Args:
        path: The ONNX file.
        metadata: Its metadata, as ONNX Runtime returns them.

    Raises:
        ModelError: The file was not exported by Redkiln, or its manifest cannot be read.
    """
    if "preprocessing" not in metadata or not ({"classes", "target"} & set(metadata)):
        raise ModelError(
            f"{path} does not say how its inputs are prepared: Redkiln did not export it, or "
            "another program removed its metadata. Use the file that the job published; if a "
            "script wrote it, prepare inputs as the script does, and run it with ONNX Runtime."
        )
    target = json.loads(metadata.get("target", "{}"))
    return Description(
        path=path,
        task=metadata.get("task", ""),
        job_id=metadata.get("job_id", ""),
        classes=json.loads(metadata.get("classes", "[]")),
        target=str(target.get("name", "")),
        preprocessing=json.loads(metadata["preprocessing"]),
        manifest=read_manifest(path.parent),
        thresholds=json.loads(metadata.get("thresholds", "null")),
        detection=json.loads(metadata.get("detection", "null")),
        segmentation=json.loads(metadata.get("segmentation", "null")),
    )


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest in a folder; empty without one.

    Raises:
        ModelError: It is not JSON, as after an interrupted copy.
    """
    path = folder / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read ({error}). Download it again.") from error
    return manifest


def check_digest(path: Path, manifest: dict[str, Any]) -> None:
    """Compare a file with the digest in the manifest, if the manifest lists the file.

    Raises:
        ModelError: The file is not the one that the job published.
    """
    listed = manifest.get("files", {}).get(path.name)
    if listed is None:
        return
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != listed["sha256"]:
        size = path.stat().st_size
        was = "" if size == listed["size_bytes"] else f" of {listed['size_bytes']:,} bytes"
        raise ModelError(
            f"{path} ({size:,} bytes, sha256 {digest[:16]}…) is not the file{was} that "
            f"{MANIFEST} lists (sha256 {listed['sha256'][:16]}…). It was changed or not copied "
            "completely; download it again."
        )
