"""Checkpoints: one safetensors file and, written after it, one JSON manifest.

    step-<12 digits>.safetensors   model/*, ema/*, optimizer/*, rng/*, history/*, reading
    step-<12 digits>.json          Manifest

Each is written to a temporary name, synced and renamed, and then its folder is synced. A checkpoint
exists once its manifest does, so a crash at any point leaves earlier checkpoints untouched.
"""

import errno
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

import safetensors.torch
import torch
from pydantic import BaseModel, Field, ValidationError

from worker.checkpoints.tensor_file import write_tensors

KEEP_LAST = 2
READING = "reading"
"""Name of the tensor that holds a text as bytes."""
T = TypeVar("T")


class Manifest(BaseModel):
    """Describes a checkpoint and holds the part of its state that is not tensors.

    Attributes:
        sha256: Digest of the tensor file.
        metrics: Newest values of the validation metrics at this step.
        is_best: Whether it was the best checkpoint when it was written.
        threads: Intra-op threads; with another number a resumed CPU run differs by rounding.
        state: State of the loop (`worker.trainer.loop.loop`).
    """

    format: Literal[1] = 1
    step: int
    epoch: int
    sha256: str
    size_bytes: int
    is_best: bool
    metrics: dict[str, float] = Field(default_factory=dict)
    torch_version: str
    threads: int
    device: str
    created_at: datetime
    state: dict[str, Any] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the tensor file."""
        return f"{stem_of(self.step)}.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint; tensors are on the CPU."""

    manifest: Manifest
    tensors: dict[str, torch.Tensor]

    def tensors_of(self, prefix: str) -> dict[str, torch.Tensor]:
        """Return the tensors below a prefix, by the rest of their names."""
        return {
            name.removeprefix(f"{prefix}/"): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(f"{prefix}/")
        }

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The weights that were scored and are exported: the moving average if one was kept."""
        return self.tensors_of("ema") or self.tensors_of("model")

    @property
    def reading(self) -> str | None:
        """How samples become the network's inputs (`TrainingSetup.reading`); None if not stored."""
        tensor = self.tensors.get(READING)
        return None if tensor is None else tensor.numpy().tobytes().decode()


class BrokenCheckpointError(Exception):
    """A checkpoint's files are missing, unreadable, or do not match its manifest."""


def stem_of(step: int) -> str:
    """Return the name that a step's two files share."""
    return f"step-{step:012d}"


class CheckpointStore:
    """The checkpoints of a job directory: keeps the best one and the last few."""

    def __init__(self, folder: Path, *, keep_last: int = KEEP_LAST) -> None:
        self._folder = folder
        self._keep_last = keep_last
        folder.mkdir(parents=True, exist_ok=True)

    def save(
        self,
        tensors: Mapping[str, torch.Tensor],
        *,
        step: int,
        epoch: int,
        is_best: bool,
        metrics: Mapping[str, float],
        threads: int,
        device: str,
        state: Mapping[str, Any],
    ) -> Manifest:
        """Write a checkpoint and remove those that are no longer kept.

        The tensors must not change during the call.

        Raises:
            OSError: the disk is full; earlier checkpoints are untouched.
        """
        digest, size_bytes = write_file_durably(
            self._folder / f"{stem_of(step)}.safetensors",
            lambda file: write_tensors(file, tensors),
            # The manifest of a step must never describe other bytes.
            before_replacing=lambda: self._manifest_path(step).unlink(missing_ok=True),
        )
        manifest = Manifest(
            step=step,
            epoch=epoch,
            sha256=digest,
            size_bytes=size_bytes,
            is_best=is_best,
            metrics=dict(metrics),
            torch_version=torch.__version__,
            threads=threads,
            device=device,
            created_at=datetime.now(UTC),
            state=dict(state),
        )
        write_durably(self._manifest_path(step), manifest.model_dump_json(indent=1).encode())
        self._prune()
        return manifest

    def manifests(self) -> list[Manifest]:
        """Return readable manifests by rising step; their tensor files may still be broken."""
        found = []
        for path in sorted(self._folder.glob("step-*.json")):
            try:
                found.append(Manifest.model_validate_json(path.read_bytes()))
            except ValidationError:
                continue
        return found

    def find_best(self) -> Manifest | None:
        """Return the newest checkpoint that was the best when written and still exists."""
        best = [m for m in self.manifests() if m.is_best and (self._folder / m.name).exists()]
        return best[-1] if best else None

    def load(self, name: str) -> Checkpoint:
        """Read a checkpoint by the name of either file, or by the stem that they share.

        Raises:
            BrokenCheckpointError: the checkpoint cannot be used.
        """
        stem = name.removesuffix(".safetensors").removesuffix(".json")
        path = self._folder / f"{stem}.safetensors"
        try:
            manifest = Manifest.model_validate_json((self._folder / f"{stem}.json").read_bytes())
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except (OSError, ValidationError) as error:
            raise BrokenCheckpointError(f"{stem}: {error}") from error
        if digest != manifest.sha256:
            raise BrokenCheckpointError(f"{stem}: the sha256 of its file differs from its manifest")
        return Checkpoint(manifest, safetensors.torch.load_file(path))

    def load_newest(self, name: str) -> tuple[Checkpoint | None, list[str]]:
        """Return the named checkpoint or the newest usable one before it, and problems of others.

        Args:
            name: Checkpoint to try first.
        """
        stem = name.removesuffix(".safetensors").removesuffix(".json")
        others = {stem_of(manifest.step) for manifest in self.manifests()}
        stems = [stem, *sorted((other for other in others if other < stem), reverse=True)]
        problems: list[str] = []
        for candidate in stems:
            try:
                return self.load(candidate), problems
            except BrokenCheckpointError as error:
                problems.append(str(error))
        return None, problems

    def drop_after(self, step: int) -> None:
        """Remove checkpoints of later steps, because the run resumes from an earlier one."""
        for manifest in self.manifests():
            if manifest.step > step:
                self._remove(manifest)

    def _prune(self) -> None:
        manifests = self.manifests()
        best = self.find_best()
        kept = {m.step for m in manifests[-self._keep_last :]} | ({best.step} if best else set())
        for manifest in manifests:
            if manifest.step not in kept:
                self._remove(manifest)

    def _remove(self, manifest: Manifest) -> None:
        # Remove the manifest first: without it the tensors do not count as a checkpoint.
        self._manifest_path(manifest.step).unlink(missing_ok=True)
        (self._folder / manifest.name).unlink(missing_ok=True)

    def _manifest_path(self, step: int) -> Path:
        return self._folder / f"{stem_of(step)}.json"


def write_durably(path: Path, content: bytes) -> None:
    """Write a file completely or not at all, even after a power loss.

    Raises:
        OSError: the disk is full; no partial file remains.
    """
    write_file_durably(path, lambda file: file.write(content))


def write_file_durably(
    path: Path,
    write: Callable[[BinaryIO], T],
    *,
    before_replacing: Callable[[], None] = lambda: None,
) -> T:
    """Write a file completely or not at all, with content written piece by piece.

    Args:
        path: File to write; an existing one is replaced.
        write: Writes the content.
        before_replacing: Called when the new content is on disk and the old file still exists.

    Returns:
        The result of `write`.

    Raises:
        OSError: the disk is full; no partial file remains.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            result = write(file)
            file.flush()
            os.fsync(file.fileno())
        before_replacing()
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)
    return result


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    except OSError as error:
        # Some file systems cannot sync a folder.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(folder)
