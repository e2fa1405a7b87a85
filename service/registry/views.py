"""Registered models as the API shows them."""

from typing import Any

from sqlmodel import Session

from redkiln.views.models.registry import Lineage, ModelVersion, RegisteredModel
from service.artifacts.rules import get_artifact
from service.jobs.rules import get_job
from service.registry.models import RegistryModel, RegistryVersion
from service.registry.rules import count_versions, list_aliases, list_versions


def model_view(session: Session, model: RegistryModel) -> RegisteredModel:
    """Return a model with its aliases."""
    newest = list_versions(session, model.name, limit=1)
    return RegisteredModel(
        id=model.name,
        name=model.name,
        project=model.project,
        newest_version=newest[0].version if newest else None,
        num_versions=count_versions(session, model.name),
        aliases=list_aliases(session, model.name),
        created_at=model.created_at,
    )


def version_view(session: Session, version: RegistryVersion) -> ModelVersion:
    """Return a version with its lineage."""
    artifact = get_artifact(session, version.artifact_id)
    aliases = list_aliases(session, version.name)
    return ModelVersion(
        name=version.name,
        version=version.version,
        description=version.description,
        file=artifact.name,
        sha256=artifact.sha256,
        size_bytes=artifact.size_bytes,
        verified=artifact.verified,
        aliases=[alias for alias, target in aliases.items() if target == version.version],
        created_at=version.created_at,
        url=f"/v1/models/{version.name}/versions/{version.version}/content",
        lineage=_trace(session, version),
    )


def _trace(session: Session, version: RegistryVersion) -> Lineage:
    job = get_job(session, version.job_id)
    spec: dict[str, Any] = job.resolved_spec or job.spec
    result = job.result or {}
    return Lineage(
        job_id=job.id,
        job_name=job.name,
        artifact_id=version.artifact_id,
        source_job_id=job.spec.get("source") if job.task == "export" else None,
        task=job.task,
        spec=spec,
        dataset_id=job.dataset_id,
        dataset_name=job.dataset_name,
        dataset_fingerprint=version.dataset_fingerprint,
        metrics=result.get("metrics", {}),
        headline=result.get("headline"),
    )
