"""The model registry: names, versions and aliases."""

from pathlib import Path

from redkiln.client.artifacts import Artifacts
from redkiln.client.transfer import OnBytes
from redkiln.views.artifact import ArtifactView
from redkiln.views.models.registry import ModelVersion, NewVersion, RegisteredModel


class Registry(Artifacts):
    """Client methods for registered models."""

    def register_model(
        self,
        name: str,
        job_id: str,
        *,
        file: str = "model.onnx",
        description: str = "",
        aliases: tuple[str, ...] = (),
    ) -> ModelVersion:
        """Register a model file of a job as the next version of a name.

        Args:
            name: Name of the model; it is created if needed.
            job_id: Id or name of a job that succeeded.
            file: Name of the file.
            description: Text for people.
            aliases: Aliases to move to the new version.

        Raises:
            NotFound: There is no such job.
            Conflict: The job has not succeeded.
        """
        new = NewVersion(
            name=name,
            job=self._job_id(job_id),
            file=file,
            description=description,
            aliases=list(aliases),
        )
        response = self._connection.request("POST", "/v1/models", json=new.model_dump())
        return ModelVersion.model_validate_json(response.content)

    def registered_models(self) -> list[RegisteredModel]:
        """Return all registered models, in the order of their names."""
        return list(self._pages("/v1/models", RegisteredModel))

    def model_versions(self, name: str) -> list[ModelVersion]:
        """Return the newest 200 versions of a model, newest first.

        Raises:
            NotFound: There is no such model.
        """
        return list(self._pages(f"/v1/models/{name}/versions", ModelVersion))

    def model_version(self, name: str, version: int | str) -> ModelVersion:
        """Return a version by its number, or by an alias (`latest` is the newest).

        Raises:
            NotFound: There is no such version.
        """
        number = isinstance(version, int) or version.isdigit()
        path = f"{name}/versions/{version}" if number else f"{name}@{version}"
        return self._get(f"/v1/models/{path}", ModelVersion)

    def set_model_alias(self, name: str, alias: str, version: int) -> ModelVersion:
        """Let an alias name a version, in one step.

        Raises:
            NotFound: There is no such version.
        """
        path = f"/v1/models/{name}/aliases/{alias}"
        response = self._connection.request("PUT", path, json={"version": version})
        return ModelVersion.model_validate_json(response.content)

    def remove_model_alias(self, name: str, alias: str) -> None:
        """Remove an alias; its version stays."""
        self._connection.request("DELETE", f"/v1/models/{name}/aliases/{alias}")

    def delete_model(self, name: str, version: int | None = None) -> None:
        """Delete a version, or a model with all its versions and aliases.

        Raises:
            Conflict: An alias names the version.
        """
        path = f"/v1/models/{name}"
        self._connection.request(
            "DELETE", path if version is None else f"{path}/versions/{version}"
        )

    def download_version(
        self, version: ModelVersion, path: Path | str, *, on_bytes: OnBytes | None = None
    ) -> Path:
        """Download the file of a version, and that of its weights, if any; see `download`."""
        artifact = self._get(f"/v1/artifacts/{version.lineage.artifact_id}", ArtifactView)
        return self.download(artifact, path, on_bytes=on_bytes)
