"""Signatures over HTTP."""

from fastapi import APIRouter, Depends

from redkiln.views.models.signature import Signature, SigningKey
from service.artifacts.rules import get_artifact
from service.http.access import require_user
from service.http.parameters import refuse_unknown_parameters
from service.services import Use

router = APIRouter(
    prefix="/v1",
    tags=["artifacts"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)


@router.get("/artifacts/{artifact_id}/signature")
def look_up_signature(artifact_id: str, services: Use) -> Signature:
    """Get the installation's signature of a published file, such as `manifest.json`."""
    artifact = services.database.read(lambda session: get_artifact(session, artifact_id))
    return services.signer.sign(kind=artifact.kind, job_id=artifact.job_id, sha256=artifact.sha256)


@router.get("/signing-key")
def look_up_key(services: Use) -> SigningKey:
    """Get the public key of this installation, for programs that check signatures."""
    return services.signer.key
