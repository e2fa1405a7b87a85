"""Artifacts: what jobs leave, listed and downloaded."""

from collections.abc import Sequence
from pathlib import Path

from redkiln.client.requests import Requests
from redkiln.errors import (
    TransferError,
)
from redkiln.job import (
    ArtifactView,
)
from redkiln.transfer import Download, OnBytes


class Artifacts(Requests):
    """The methods of a client that are about artifacts."""

    def artifacts(self, job_id: str) -> list[ArtifactView]:
        """The published files of a job; none before it has succeeded."""
        return list(self._pages(f"/v1/jobs/{job_id}/artifacts", ArtifactView))

    def download(
        self, artifact: ArtifactView, path: Path | str, *, on_bytes: OnBytes | None = None
    ) -> Path:
        """Fetch an artifact, resuming what an earlier call left, and verify its sha256.

        Args:
            artifact: one of `artifacts(job_id)`.
            path: the file to write, or a folder to put it in under its own name.
            on_bytes: told how many new bytes are there.

        Raises:
            DigestMismatch: what arrived is not what was published; nothing is kept.
            TransferError: the file cannot be written.
        """
        target = Path(path)
        if target.is_dir():
            target = target / _file_name(artifact)
        return Download(
            self._connection, artifact, target, policy=self._policy, on_bytes=on_bytes
        ).run()

    def download_all(
        self, job_id: str, folder: Path | str, *, names: Sequence[str] | None = None
    ) -> list[Path]:
        """Fetch a job's artifacts into a folder, which is made; see `download`.

        Args:
            job_id: of the job.
            folder: where they go.
            names: only these.
        """
        wanted = [a for a in self.artifacts(job_id) if names is None or a.name in names]
        return [self.download(a, Path(folder) / _file_name(a)) for a in wanted]


def _file_name(artifact: ArtifactView) -> str:
    if Path(artifact.name).name != artifact.name or artifact.name.startswith("."):
        raise TransferError(f"{artifact.name!r} is no name for a file here; it was not written")
    return artifact.name
