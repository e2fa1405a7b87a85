"""Opens the record of a request, and logs a change that was refused."""

import structlog
from sqlmodel import Session
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.audit.record import Record, add_entry, current
from service.errors import ServiceError
from service.http.cookies import SAFE_METHODS
from service.services import Services

REFUSED = {403: "forbidden", 404: "not_found", 409: "conflict", 422: "unprocessable"}
"""Statuses that the log keeps, with their outcome. A wrong key has no name, and a flood of requests
above the limit must not become a flood of writes."""

log = structlog.get_logger(__name__)


class AuditMiddleware:
    """Gives each request that may change something a record; see `service.audit.record`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] in SAFE_METHODS:
            await self._app(scope, receive, send)
            return
        record, status = Record(scope), 0

        async def send_and_look(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        token = current.set(record)
        try:
            await self._app(scope, receive, send_and_look)
        finally:
            current.reset(token)
        if status in REFUSED and record.caller is not None and not record.is_written:
            await run_in_threadpool(_log_refusal, scope["app"].state.services, record, status)


def _log_refusal(services: Services, record: Record, status: int) -> None:
    caller = record.caller
    assert caller is not None

    def write(session: Session) -> None:
        add_entry(session, record, caller, outcome=REFUSED[status])

    try:
        services.database.write(write)
    except ServiceError as error:
        log.warning("audit_incomplete", key_id=caller.id, cause=error.detail)
