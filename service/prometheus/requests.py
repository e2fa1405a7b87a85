"""Counts and times requests by route, not by path, because paths contain ids."""

import time

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
UNMATCHED = "unmatched"
"""Route label of requests that match no endpoint."""
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class RequestMeter:
    """Counters of the requests so far."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "redkiln_http_requests_total",
            "Requests by route and response status.",
            ["method", "route", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "redkiln_http_request_duration_seconds",
            "Time until the response starts; streams continue after that.",
            ["method", "route"],
            buckets=BUCKETS,
            registry=registry,
        )

    def note(self, method: str, route: str, *, status: int, seconds: float) -> None:
        """Count a response."""
        method = method if method in METHODS else "other"
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(method, route).observe(seconds)


class MeterMiddleware:
    """Counts each response when it starts."""

    def __init__(self, app: ASGIApp, meter: RequestMeter) -> None:
        self._app = app
        self._meter = meter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = time.perf_counter()

        async def send_and_note(message: Message) -> None:
            if message["type"] == "http.response.start":
                seconds = time.perf_counter() - started_at
                route = getattr(scope.get("route"), "path", UNMATCHED)
                self._meter.note(scope["method"], route, status=message["status"], seconds=seconds)
            await send(message)

        await self._app(scope, receive, send_and_note)
