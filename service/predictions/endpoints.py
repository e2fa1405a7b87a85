"""Predictions over HTTP."""

import json
from dataclasses import replace
from typing import Annotated, Any

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar
from fastapi import APIRouter, Depends, Query, Request
from pydantic import ValidationError
from sqlmodel import Session

from redkiln.spec.problems import find_problems
from redkiln.views.models.prediction import PredictionsView, PredictRequest
from service.artifacts.models import Artifact
from service.artifacts.rules import get_artifact, list_artifacts
from service.errors import BadRequest, Unavailable, Unprocessable
from service.http.access import require_user
from service.http.malformed import read_json
from service.http.media import base_type, is_json
from service.http.parameters import refuse_unknown_parameters
from service.predictions.order import MOST_SCORES, Ending
from service.predictions.rules import predict
from service.services import Use

router = APIRouter(
    prefix="/v1",
    tags=["artifacts"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)

MOST_AT_ONCE = 2
"""Predictions that run at once; each may use 4 GiB and several threads."""
MOST_WAITING = 32
_limiter: RunVar[CapacityLimiter | None] = RunVar("predictions")

_ENDINGS: dict[str, Ending] = {
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "application/x-ndjson": ".jsonl",
}
_MANY = (
    "split them, or run the file without the service, with `redkiln predict` or "
    "redkiln.predict.model.Model"
)
_RAW = {"schema": {"type": "string", "format": "binary"}}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "One image, a table, or texts, one a line; or, as JSON, texts or rows.",
        "content": {
            "application/octet-stream": _RAW,
            **dict.fromkeys(_ENDINGS, _RAW),
            "application/json": {"schema": PredictRequest.model_json_schema()},
        },
    }
}


@router.post(
    "/artifacts/{artifact_id}/predict",
    openapi_extra=_BODY,
    response_model_exclude_unset=True,
    responses={
        410: {"description": "The model has been deleted."},
        413: {"description": "The body is larger than 16 MiB, or 1 MiB of JSON."},
        422: {"description": "The artifact is not a model, or cannot use these inputs."},
        503: {"description": "The model needed more than 4 GiB of memory or 60 s of CPU time."},
    },
)
async def predict_with(
    artifact_id: str,
    request: Request,
    services: Use,
    top: Annotated[
        int | None,
        Query(
            ge=1,
            le=MOST_SCORES,
            description="Classes of each answer; default: 1, or up to 100 labels or boxes.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        Query(
            ge=0,
            le=1,
            description="Smallest score of a box, of a detector; default: the model's own.",
        ),
    ] = None,
) -> PredictionsView:
    """Predict a few inputs with a published model, as `redkiln predict` does."""
    body, content_type = await request.body(), request.headers.get("content-type", "")

    def find(session: Session) -> tuple[Artifact, list[Artifact]]:
        model = get_artifact(session, artifact_id)
        return model, list(list_artifacts(session, model.job_id))

    def run() -> PredictionsView:
        content, ending = _read(body, content_type)
        model, others = services.database.read(find)
        return predict(
            services.storage,
            model,
            others,
            content=content,
            ending=ending,
            top=top,
            threshold=threshold,
            min_free_bytes=services.settings.min_free_bytes,
        )

    return await to_thread.run_sync(run, limiter=_join_queue())


def _join_queue() -> CapacityLimiter:
    """Return the limiter of predictions, whose queue takes no threads from other requests.

    Raises:
        Unavailable: Too many predictions wait already.
    """
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = CapacityLimiter(MOST_AT_ONCE)
        _limiter.set(limiter)
    if limiter.statistics().tasks_waiting >= MOST_WAITING:
        raise Unavailable(f"{MOST_WAITING} predictions are waiting already; try again later")
    return limiter


def _read(body: bytes, content_type: str) -> tuple[bytes, Ending]:
    """Return the inputs as the content of a file, and its ending."""
    if not body:
        raise BadRequest("the body is empty; send an image, a table or texts", code="empty_body")
    if not is_json(content_type):
        return body, _ENDINGS.get(base_type(content_type), "")
    rows = [{"text": one} if isinstance(one, str) else one for one in _parse(body).inputs]
    return "\n".join(map(json.dumps, rows)).encode(), ".jsonl"


def _parse(body: bytes) -> PredictRequest:
    try:
        return PredictRequest.model_validate(read_json(body))
    except ValidationError as error:
        problems = find_problems(error.errors(include_url=False), PredictRequest)
        problems = [
            replace(problem, message=f"{problem.message}; {_MANY}")
            if (problem.pointer, problem.code) == ("/inputs", "too_long")
            else problem
            for problem in problems
        ]
        detail = "; ".join(f"{problem.pointer or '/'}: {problem.message}" for problem in problems)
        raise Unprocessable(detail, code="invalid_request", errors=problems) from None
