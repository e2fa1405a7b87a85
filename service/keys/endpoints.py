"""API keys over HTTP."""

from typing import Annotated, Literal

from fastapi import APIRouter, Body, Depends, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from redkiln.views.access.key import PROJECT_PATTERN, CreatedKey, KeyView
from redkiln.views.page import Page
from service.http.access import require_admin
from service.http.bodies import JsonRoute
from service.http.parameters import refuse_unknown_parameters
from service.keys.caller import DEFAULT_PROJECT
from service.keys.rules import create_key, key_view, list_keys, revoke_key, rotate_key
from service.services import Use

router = APIRouter(
    route_class=JsonRoute,
    prefix="/v1/keys",
    tags=["keys"],
    dependencies=[Depends(require_admin), Depends(refuse_unknown_parameters)],
)


class NewKey(BaseModel):
    """A key to create.

    Attributes:
        name: Name for people to recognise the key by.
        scope: `user` for jobs and data sets, `scripts` to run scripts as well, `admin` to manage
            keys as well, `worker` for a worker.
        project: Project whose jobs, data sets and models the key sees; any name begins one.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(min_length=1, max_length=100)
    scope: Literal["user", "scripts", "worker", "admin"] = "user"
    project: str = Field(DEFAULT_PROJECT, pattern=PROJECT_PATTERN)


@router.post("", status_code=201)
def create(body: Annotated[NewKey, Body()], services: Use, response: Response) -> CreatedKey:
    """Create a key. Its secret is in this response only."""
    created = services.database.write(
        lambda session: create_key(session, name=body.name, scope=body.scope, project=body.project)
    )
    response.headers["Location"] = f"/v1/keys/{created.id}"
    response.headers["Cache-Control"] = "no-store"
    return created


@router.get("")
def list_all(
    services: Use,
    after: Annotated[
        str | None, Query(max_length=64, description="Continue after this key.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Page[KeyView]:
    """List keys, including revoked ones, newest first. Secrets are never shown."""
    keys = services.database.read(lambda session: list_keys(session, after=after, limit=limit + 1))
    shown = [key_view(key) for key in keys[:limit]]
    return Page[KeyView](
        data=shown,
        has_more=len(keys) > limit,
        first_id=shown[0].id if shown else None,
        last_id=shown[-1].id if shown else None,
    )


@router.post("/{key_id}/rotate", status_code=201)
def rotate(key_id: str, services: Use, response: Response) -> CreatedKey:
    """Replace a key by a new one of the same name, scope and project.

    The old one stops working at once. A running attempt ends with the worker's key that claimed
    it, so rotate such a key while its worker is idle.
    """
    created = services.database.write(lambda session: rotate_key(session, key_id))
    services.keys.forget()
    services.sessions.forget()
    response.headers["Location"] = f"/v1/keys/{created.id}"
    response.headers["Cache-Control"] = "no-store"
    return created


@router.delete("/{key_id}", status_code=204, response_class=Response)
def revoke(key_id: str, services: Use) -> Response:
    """Revoke a key. It stops working at once."""
    services.database.write(lambda session: revoke_key(session, key_id))
    services.keys.forget()
    services.sessions.forget()
    return Response(status_code=204)
