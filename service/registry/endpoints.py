"""The model registry over HTTP."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session

from redkiln.views.models.registry import (
    NAME_PATTERN,
    AliasTarget,
    ModelVersion,
    NewVersion,
    RegisteredModel,
)
from redkiln.views.page import Page
from service.artifacts.content import CONTENT, content_response
from service.artifacts.rules import get_artifact
from service.http.access import require_user
from service.http.bodies import JsonRoute
from service.http.parameters import refuse_unknown_parameters
from service.keys.caller import Caller
from service.projects.owners import check_owner
from service.projects.seen import Seen
from service.registry.models import RegistryVersion
from service.registry.rules import (
    delete_model,
    delete_version,
    get_model,
    get_version,
    list_models,
    list_versions,
    move_alias,
    register_version,
    remove_alias,
    resolve_alias,
)
from service.registry.views import model_view, version_view
from service.services import Services, Use

T = TypeVar("T")

router = APIRouter(
    route_class=JsonRoute,
    prefix="/v1/models",
    tags=["models"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)

Name = Annotated[str, Path(pattern=NAME_PATTERN, description="Name of a registered model.")]
Alias = Annotated[str, Path(max_length=50, description="An alias, or `latest`.")]
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]
_MISSING: dict[int | str, dict[str, Any]] = {
    404: {"description": "There is no such model, version or alias."}
}


@router.post(
    "",
    status_code=201,
    responses={
        404: {"description": "There is no such job."},
        409: {"description": "The job has not succeeded, or the name is another project's."},
    },
)
def register(
    body: Annotated[NewVersion, Body()],
    services: Use,
    caller: Annotated[Caller, Depends(require_user)],
    response: Response,
) -> ModelVersion:
    """Register a model file of a job as the next version of a model, which is created if needed."""
    check_owner(services.database, caller, {"job_id": body.job})
    created = _write(services, lambda s: version_view(s, register_version(s, body)))
    response.headers["Location"] = f"/v1/models/{created.name}/versions/{created.version}"
    return created


@router.get("")
def list_all(
    services: Use,
    project: Seen,
    after: Annotated[
        str | None, Query(max_length=100, description="Continue after this model.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Page[RegisteredModel]:
    """List registered models in the order of their names."""

    def find(session: Session) -> list[RegisteredModel]:
        models = list_models(session, after=after, limit=limit + 1, project=project)
        return [model_view(session, model) for model in models]

    found = services.database.read(find)
    shown = found[:limit]
    return Page[RegisteredModel](
        data=shown,
        has_more=len(found) > limit,
        first_id=shown[0].id if shown else None,
        last_id=shown[-1].id if shown else None,
    )


@router.get("/{name}@{alias}", responses={**_MISSING})
def look_up_alias(name: Name, alias: Alias, services: Use) -> ModelVersion:
    """Get the version that an alias names; `latest` is the newest one."""
    return services.database.read(lambda s: version_view(s, resolve_alias(s, name, alias)))


@router.get("/{name}@{alias}/content", response_class=Response, responses=CONTENT | _MISSING)
@router.head("/{name}@{alias}/content", response_class=Response, include_in_schema=False)
def download_alias(name: Name, alias: Alias, request: Request, services: Use) -> Response:
    """Download the file that an alias names, whole or one range of it.

    The header `Redkiln-Version` has the version. `If-Range` and `If-None-Match` work as for
    artifacts, so a program can ask cheaply whether the alias has moved.
    """
    response = _send(services, request, lambda s: resolve_alias(s, name, alias))
    response.headers["Cache-Control"] = "private, no-cache"  # the alias may move
    return response


@router.get("/{name}", responses={**_MISSING})
def look_up(name: Name, services: Use) -> RegisteredModel:
    """Get a registered model with its aliases."""
    return services.database.read(lambda s: model_view(s, get_model(s, name)))


@router.delete("/{name}", status_code=204, response_class=Response, responses={**_MISSING})
def remove(name: Name, services: Use) -> Response:
    """Delete a registered model with its versions and aliases. The jobs keep their files."""
    services.database.free(lambda session: delete_model(session, name))
    return Response(status_code=204)


@router.get("/{name}/versions", responses={**_MISSING})
def list_of_model(name: Name, services: Use) -> Page[ModelVersion]:
    """List the newest 200 versions of a model, newest first."""

    def find(session: Session) -> list[ModelVersion]:
        return [version_view(session, one) for one in list_versions(session, name)]

    return Page[ModelVersion](data=services.database.read(find))


@router.get("/{name}/versions/{version}", responses={**_MISSING})
def look_up_version(name: Name, version: Number, services: Use) -> ModelVersion:
    """Get a version: its file, and the job, spec and data set that it comes from."""
    return services.database.read(lambda s: version_view(s, get_version(s, name, version)))


@router.get(
    "/{name}/versions/{version}/content", response_class=Response, responses=CONTENT | _MISSING
)
@router.head("/{name}/versions/{version}/content", response_class=Response, include_in_schema=False)
def download_version(name: Name, version: Number, request: Request, services: Use) -> Response:
    """Download the file of a version, whole or one range of it."""
    return _send(services, request, lambda s: get_version(s, name, version))


@router.delete(
    "/{name}/versions/{version}",
    status_code=204,
    response_class=Response,
    responses={**_MISSING, 409: {"description": "An alias names the version."}},
)
def remove_version(name: Name, version: Number, services: Use) -> Response:
    """Delete a version. Its number is not used again, and the job keeps its file."""
    services.database.free(lambda session: delete_version(session, name, version))
    return Response(status_code=204)


@router.put("/{name}/aliases/{alias}", responses={**_MISSING})
def put_alias(
    name: Name, alias: Alias, body: Annotated[AliasTarget, Body()], services: Use
) -> ModelVersion:
    """Let an alias name a version. A reader sees either the old version or the new one."""
    return _write(
        services, lambda s: version_view(s, move_alias(s, name, alias, version=body.version))
    )


@router.delete(
    "/{name}/aliases/{alias}", status_code=204, response_class=Response, responses={**_MISSING}
)
def delete_alias(name: Name, alias: Alias, services: Use) -> Response:
    """Remove an alias. The version stays."""
    services.database.write(lambda session: remove_alias(session, name, alias))
    return Response(status_code=204)


def _write(services: Services, function: Callable[[Session], T]) -> T:
    """Write; once more if another request has just made the same model or alias (PostgreSQL)."""
    try:
        return services.database.write(function)
    except IntegrityError:
        return services.database.write(function)


def _send(
    services: Services, request: Request, find: Callable[[Session], RegistryVersion]
) -> Response:
    def read(session: Session) -> tuple[RegistryVersion, str, str, str]:
        version = find(session)
        file = get_artifact(session, version.artifact_id)
        return version, file.sha256, file.name, file.media_type

    version, sha256, filename, media_type = services.database.read(read)
    response = content_response(
        services.storage, sha256, request=request, filename=filename, media_type=media_type
    )
    response.headers["Redkiln-Version"] = str(version.version)
    return response
