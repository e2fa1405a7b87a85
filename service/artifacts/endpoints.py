"""Artifacts over HTTP."""

from fastapi import APIRouter, Depends, Request, Response
from sqlmodel import Session

from redkiln.views.artifact import ArtifactView
from redkiln.views.page import Page
from service.artifacts.content import CONTENT, content_response
from service.artifacts.models import Artifact
from service.artifacts.rules import artifact_view, get_artifact, list_artifacts
from service.http.access import require_user
from service.http.parameters import refuse_unknown_parameters
from service.jobs.rules import get_job
from service.services import Services, Use

router = APIRouter(
    prefix="/v1",
    tags=["artifacts"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)
_FILE = CONTENT | {
    200: {"description": "The file.", "content": {"application/octet-stream": {}}},
}


@router.get("/jobs/{job_id}/artifacts")
def list_of_job(job_id: str, services: Use) -> Page[ArtifactView]:
    """List the files that a job has published."""

    def find(session: Session) -> list[ArtifactView]:
        job = get_job(session, job_id)
        return [artifact_view(artifact) for artifact in list_artifacts(session, job.id)]

    shown = services.database.read(find)
    return Page[ArtifactView](
        data=shown,
        first_id=shown[0].id if shown else None,
        last_id=shown[-1].id if shown else None,
    )


@router.get("/artifacts/{artifact_id}")
@router.head("/artifacts/{artifact_id}", include_in_schema=False)
def look_up(artifact_id: str, services: Use) -> ArtifactView:
    """Get an artifact."""
    return artifact_view(_find(services, artifact_id))


@router.get("/artifacts/{artifact_id}/content", response_class=Response, responses=_FILE)
@router.head("/artifacts/{artifact_id}/content", response_class=Response, responses=_FILE)
def download(artifact_id: str, request: Request, services: Use) -> Response:
    """Download a file, whole or one range of it, with its digest."""
    artifact = _find(services, artifact_id)
    return content_response(
        services.storage,
        artifact.sha256,
        request=request,
        filename=artifact.name,
        media_type=artifact.media_type,
    )


def _find(services: Services, artifact_id: str) -> Artifact:
    return services.database.read(lambda session: get_artifact(session, artifact_id))
