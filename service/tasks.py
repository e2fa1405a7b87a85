"""The tasks that a spec can name, with their schemas and defaults, over HTTP."""

import hashlib
import json
from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from redkiln.spec.problems import SpecError
from redkiln.tasks import TASKS, task_schema
from redkiln.views.page import Page
from service.errors import NotFound
from service.http.access import require_user
from service.http.parameters import refuse_unknown_parameters

router = APIRouter(
    prefix="/v1/tasks",
    tags=["tasks"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)


class TaskView(BaseModel):
    """A task that a spec can name.

    Attributes:
        defaults: Values of all optional fields. Required fields (a data set, a script's command)
            are not included.
    """

    name: str
    description: str
    schema_url: str
    defaults: dict[str, Any]


class SchemaResponse(JSONResponse):
    """A JSON Schema; the document of the API takes its media type from here."""

    media_type = "application/schema+json"


@router.get("")
def list_tasks() -> Page[TaskView]:
    """List the tasks."""
    views = [_view(name) for name in TASKS]
    return Page[TaskView](data=views, first_id=views[0].name, last_id=views[-1].name)


@router.get(
    "/{task}/schema",
    response_class=SchemaResponse,
    response_model=dict[str, Any],
    responses={304: {"description": "The client already has this schema."}},
)
def get_schema(task: str, if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """Get the JSON Schema of a task's spec, with every default."""
    content, etag = _render_schema(task)
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if if_none_match is not None and etag in if_none_match:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=SchemaResponse.media_type)


def _view(name: str) -> TaskView:
    required = TASKS[name].required
    spec = TASKS[name].model_validate({"task": name, **required})
    return TaskView(
        name=name,
        description=(TASKS[name].__doc__ or "").strip(),
        schema_url=f"/v1/tasks/{name}/schema",
        defaults=spec.model_dump(mode="json", exclude={"task": True, **_leaves(required)}),
    )


def _leaves(required: dict[str, Any]) -> dict[str, Any]:
    """Build pydantic's `exclude` argument for the fields that have no default."""
    return {
        name: _leaves(value) if isinstance(value, dict) else True
        for name, value in required.items()
    }


@cache
def _render_schema(task: str) -> tuple[str, str]:
    try:
        content = json.dumps(task_schema(task))
    except SpecError as error:
        raise NotFound(error.problems[0].message) from None
    return content, f'"{hashlib.sha256(content.encode()).hexdigest()[:32]}"'
