"""Artifacts: the files of jobs, listed, downloaded and used."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from redkiln.client.requests import Requests
from redkiln.client.result_folder import place_artifact
from redkiln.client.transfer import Download, OnBytes
from redkiln.errors import NotFound
from redkiln.views.artifact import ArtifactView, add_data_files, find_data_file
from redkiln.views.models.prediction import PredictionsView
from redkiln.views.models.signature import SUFFIX, Signature, SigningKey


class Artifacts(Requests):
    """Client methods for artifacts."""

    def artifacts(self, job_id: str) -> list[ArtifactView]:
        """Return the published files of a job; a script publishes them while it still runs."""
        return list(self._pages(f"/v1/jobs/{self._job_id(job_id)}/artifacts", ArtifactView))

    def download(
        self,
        artifact: ArtifactView,
        path: Path | str,
        *,
        on_bytes: OnBytes | None = None,
        with_data: bool = True,
    ) -> Path:
        """Download an artifact, resuming an interrupted download, and verify its sha256.

        The signature of an export's `manifest.json` is written next to it, as `manifest.json.sig`.
        The file of an ONNX file's weights (`NAME.onnx.data`) is written next to it under its own
        name, because the ONNX file refers to it.

        Args:
            artifact: One of `artifacts(job_id)`.
            path: File to write, or folder to put the artifact in under its own name, which may
                contain further folders.
            on_bytes: Called with the number of new bytes.
            with_data: Whether an ONNX file comes with the file of its weights, if it has one.

        Raises:
            DigestMismatch: The bytes differ from the published ones; nothing is kept.
            TransferError: The file cannot be written, or its name would lead out of the folder.
        """
        target = Path(path)
        if target.is_dir():
            target = place_artifact(target, artifact.name)
        path = Download(
            self._connection, artifact, target, policy=self._policy, on_bytes=on_bytes
        ).run()
        if artifact.name == "manifest.json" and artifact.kind == "manifest":
            self._sign(artifact, path)
        if with_data and artifact.kind == "model":
            data = find_data_file(artifact, self.artifacts(artifact.job_id))
            if data is not None:
                self.download(data, path.with_name(Path(data.name).name), on_bytes=on_bytes)
        return path

    def signature(self, artifact_id: str) -> Signature:
        """Return the installation's signature of an artifact.

        Raises:
            NotFound: There is no such artifact, or the service is older than signatures.
        """
        return self._get(f"/v1/artifacts/{artifact_id}/signature", Signature)

    def signing_key(self) -> SigningKey:
        """Return the public key with which the service signs files."""
        return self._get("/v1/signing-key", SigningKey)

    def _sign(self, artifact: ArtifactView, path: Path) -> None:
        """Write the signature of a downloaded file next to it; older services have none."""
        with contextlib.suppress(NotFound):
            text = self.signature(artifact.id).model_dump_json(indent=1)
            path.with_name(f"{path.name}{SUFFIX}").write_text(f"{text}\n")

    def predict(
        self,
        artifact_id: str,
        content: bytes | str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
        *,
        media_type: str = "application/octet-stream",
        top: int | None = None,
        threshold: float | None = None,
    ) -> PredictionsView:
        """Predict small inputs with a published model, on the service's machine.

        Args:
            artifact_id: Id of an artifact of kind `model`.
            content: One image, a table, or texts, one a line, as at most 16 MiB of bytes; or
                texts, or rows as mappings of columns to values, one or a list of them, at most
                1 MiB as JSON.
            media_type: Type of the bytes, such as `text/csv`.
            top: Classes of each answer; None for one, or for all labels or boxes.
            threshold: Smallest score of a box, of a detector; None for the model's own.
        """
        if not isinstance(content, bytes):
            inputs = [content] if isinstance(content, str | Mapping) else list(content)
            content = json.dumps({"inputs": inputs}).encode()
            media_type = "application/json"
        response = self._connection.request(
            "POST",
            f"/v1/artifacts/{artifact_id}/predict",
            content=content,
            headers={"Content-Type": media_type},
            params={"top": top, "threshold": threshold},
            repeatable=True,
        )
        return PredictionsView.model_validate_json(response.content)

    def download_all(
        self,
        job_id: str,
        folder: Path | str,
        *,
        names: Sequence[str] | None = None,
        on_bytes: OnBytes | None = None,
    ) -> list[Path]:
        """Download a job's artifacts into a folder, which is created; see `download`.

        Args:
            job_id: Id of the job, or its name for the newest of that name.
            folder: Folder for the files.
            names: Names of the artifacts to download; None for all. An ONNX file comes with the
                file of its weights (`NAME.onnx.data`), if it has one.
            on_bytes: Called with the number of new bytes.
        """
        listed = self.artifacts(job_id)
        wanted = add_data_files([a for a in listed if names is None or a.name in names], listed)
        paths = [place_artifact(Path(folder), artifact.name) for artifact in wanted]
        return [
            self.download(artifact, path, on_bytes=on_bytes, with_data=False)
            for artifact, path in zip(wanted, paths, strict=True)
        ]
