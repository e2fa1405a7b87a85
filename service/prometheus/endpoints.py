"""Metrics over HTTP, as Prometheus reads them."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from service.http.access import require_user

router = APIRouter(tags=["health"], dependencies=[Depends(require_user)])


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}, "description": "Prometheus text format."}},
)
def get_prometheus_metrics(request: Request, accept: Annotated[str, Header()] = "") -> Response:
    """Get metrics of requests, jobs, workers, GPUs and storage for Prometheus."""
    registry: CollectorRegistry = request.app.state.registry
    encode, media_type = choose_encoder(accept)
    return Response(encode(registry), headers={"Content-Type": media_type})
