"""Registered models as the API shows them, in the words of MLflow's registry."""

import re
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field, field_validator
from pydantic_core import PydanticCustomError

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
ALIAS_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,49}$"
NEWEST = "latest"
"""Alias that always names the newest version; it cannot be set."""


class Lineage(BaseModel):
    """Where a version comes from.

    Attributes:
        job_id: Job that published the file; it cannot be deleted while the version exists.
        artifact_id: The published file.
        source_job_id: Job that trained the weights, if `job_id` only exported them again.
        spec: Spec of the job with every `auto` resolved.
        dataset_fingerprint: sha256 of the data set, or the name of a built-in one; it stays known
            after the data set is deleted. None if the job reads no data set.
        metrics: Final metrics of the job.
        headline: Name of the metric by which the job's result is judged, if it has one.
    """

    job_id: str
    job_name: str
    artifact_id: str
    source_job_id: str | None = None
    task: str
    spec: dict[str, Any]
    dataset_id: str | None = None
    dataset_name: str | None = None
    dataset_fingerprint: str | None = None
    metrics: dict[str, float] = Field(default_factory=dict)
    headline: str | None = None


class ModelVersion(BaseModel):
    """One version of a registered model; its file never changes.

    Attributes:
        version: Number from 1; a number is never used twice.
        file: Name of the ONNX file.
        verified: Whether the file passed its comparison with the trained model.
        aliases: Aliases that name this version.
        url: Path of the file.
    """

    name: str
    version: int
    description: str
    file: str
    sha256: str
    size_bytes: int
    verified: bool | None
    aliases: list[str]
    created_at: datetime
    url: str
    lineage: Lineage


class RegisteredModel(BaseModel):
    """A name for the versions of a model.

    Attributes:
        id: The name; lists continue after it.
        project: Project that owns it.
        newest_version: Number of the newest version that exists; None without any.
        num_versions: Number of versions that exist.
        aliases: Version of each alias.
    """

    id: str
    name: str
    project: str = "default"
    newest_version: int | None
    num_versions: int
    aliases: dict[str, int]
    created_at: datetime


class NewVersion(BaseModel):
    """A version to register."""

    model_config = {"extra": "forbid"}

    name: str = Field(pattern=NAME_PATTERN, description="Registered model; created if needed.")
    job: str = Field(max_length=64, description="Id of a job that succeeded.")
    file: str = Field("model.onnx", max_length=300, description="Name of its model file.")
    description: str = Field("", max_length=2000)
    aliases: list[str] = Field(
        default_factory=list, max_length=10, description="Aliases to move to this version."
    )

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if re.fullmatch("[0-9a-f]{64}", name):
            message = "64 hexadecimal digits name an uploaded ONNX file; choose another name"
            raise PydanticCustomError("bad_name", message)
        return name


class AliasTarget(BaseModel):
    """The version that an alias should name."""

    model_config = {"extra": "forbid"}

    version: int = Field(ge=1, le=2**31 - 1)
