"""The curves of a job over HTTP: its metrics, and the readings of its GPUs and host."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from redkiln.views.metrics import Series, TelemetrySeries
from service.http.access import require_user
from service.http.parameters import refuse_unknown_parameters
from service.metrics.job_series import Window, render_job_series, render_job_telemetry
from service.services import Use

router = APIRouter(
    prefix="/v1/jobs/{job_id}",
    tags=["jobs"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)

MaxPoints = Annotated[int, Query(ge=2, le=100_000, description="Most points per series.")]


@router.get("/metrics", response_model=dict[str, list[Series]])
def get_metrics(
    job_id: str,
    services: Use,
    names: Annotated[
        list[str] | None, Query(max_length=100, description="Repeatable, or separated by commas.")
    ] = None,
    after_step: Annotated[
        int | None, Query(ge=0, lt=2**53, description="Only points after this step.")
    ] = None,
    from_step: Annotated[
        int | None, Query(ge=0, lt=2**53, description="Only points from this step on.")
    ] = None,
    to_step: Annotated[
        int | None, Query(ge=0, lt=2**53, description="Only points up to this step.")
    ] = None,
    max_points: MaxPoints = 2000,
) -> Response:
    """Get a job's metric series, thinned to `max_points` but keeping every extreme.

    To zoom, ask again with `from_step` and `to_step`: fewer points are thinned less.
    """
    wanted, window = _split_names(names), Window(after_step, from_step, to_step)
    content = services.database.read(
        lambda session: render_job_series(
            session, job_id, names=wanted, window=window, max_points=max_points
        )
    )
    return Response(content, media_type="application/json")


@router.get("/telemetry", response_model=dict[str, list[TelemetrySeries]])
def get_telemetry(
    job_id: str,
    services: Use,
    names: Annotated[
        list[str] | None, Query(max_length=100, description="Repeatable, or separated by commas.")
    ] = None,
    after_ms: Annotated[
        int | None, Query(ge=0, lt=2**53, description="Only points after this time (Unix ms).")
    ] = None,
    from_ms: Annotated[
        int | None, Query(ge=0, lt=2**53, description="Only points from this time on (Unix ms).")
    ] = None,
    to_ms: Annotated[
        int | None, Query(ge=0, lt=2**53, description="Only points up to this time (Unix ms).")
    ] = None,
    max_points: MaxPoints = 2000,
) -> Response:
    """Get what a job's GPUs and host measured over time, thinned like metrics."""
    wanted, window = _split_names(names), Window(after_ms, from_ms, to_ms)
    content = services.database.read(
        lambda session: render_job_telemetry(
            session, job_id, names=wanted, window=window, max_points=max_points
        )
    )
    return Response(content, media_type="application/json")


def _split_names(names: list[str] | None) -> list[str]:
    return [name for item in names or [] for name in item.split(",") if name]
