"""Artifacts: what jobs leave, listed and downloaded."""

from collections.abc import Sequence
from pathlib import Path

from redkiln.client.requests import Requests
from redkiln.job import ArtifactView
from redkiln.result_folder import place_artifact
from redkiln.transfer import Download, OnBytes


class Artifacts(Requests):
    """The methods of a client that are about artifacts."""

    def artifacts(self, job_id: str) -> list[ArtifactView]:
        """The published files of a job; a script's also while it runs and when it has failed."""
        return list(self._pages(f"/v1/jobs/{job_id}/artifacts", ArtifactView))

    def download(
        self, artifact: ArtifactView, path: Path | str, *, on_bytes: OnBytes | None = None
    ) -> Path:
        """Fetch an artifact, resuming what an earlier call left, and verify its sha256.

        Args:
            artifact: one of `artifacts(job_id)`.
            path: the file to write, or a folder to put it in under its own name, which may hold
                further folders.
            on_bytes: told how many new bytes are there.

        Raises:
            DigestMismatch: what arrived is not what was published; nothing is kept.
            TransferError: the file cannot be written, or its name would lead out of the folder.
        """
        target = Path(path)
        if target.is_dir():
            target = place_artifact(target, artifact.name)
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
        paths = [place_artifact(Path(folder), artifact.name) for artifact in wanted]
        return [self.download(a, path) for a, path in zip(wanted, paths, strict=True)]
