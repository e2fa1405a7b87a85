"""Logging in and out over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Body, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlmodel import Session, select
from starlette.concurrency import run_in_threadpool

from redkiln.views.access.session import CallerView, SessionState, SessionView
from redkiln.views.page import Page
from service.audit.record import note_caller
from service.errors import Conflict, ServiceError
from service.http.access import LOCAL, check_csrf, require_user, session_cookie
from service.http.bodies import JsonRoute
from service.http.cookies import COOKIE, set_cookie
from service.http.parameters import refuse_unknown_parameters
from service.keys.caller import Caller
from service.keys.models import ApiKey
from service.services import Services, Use
from service.sessions import rules
from service.sessions.models import WebSession

router = APIRouter(
    tags=["sessions"], dependencies=[Depends(refuse_unknown_parameters)], route_class=JsonRoute
)
User = Annotated[Caller, Depends(require_user)]


class Login(BaseModel):
    """A key to log in with. The service keeps only the session, and the browser only a cookie."""

    model_config = ConfigDict(extra="forbid", strict=True)

    key: str = Field(min_length=1, max_length=200)


@router.get("/v1/session")
async def show_session(request: Request, services: Use) -> SessionState:
    """Tell a page whether a login is needed, who is logged in, and its CSRF token."""
    if not services.settings.needs_keys:
        return SessionState(login_required=False, caller=CallerView(key_id=LOCAL.id, scope="admin"))
    secret = session_cookie(request)
    if secret is None:
        return SessionState(login_required=True)
    return await run_in_threadpool(_describe, services, secret)


@router.post(
    "/v1/session",
    status_code=201,
    responses={
        401: {"description": "The key is unknown or revoked."},
        403: {"description": "It is a worker's key."},
        409: {"description": "The service requires no key."},
    },
)
def log_in(
    body: Annotated[Login, Body()], request: Request, response: Response, services: Use
) -> SessionState:
    """Log in with a key. The answer sets a cookie that scripts of the page cannot read."""
    settings = services.settings
    if not settings.needs_keys:
        raise Conflict("this service requires no key, so nobody has to log in", code="no_login")
    caller = services.keys.look_up(body.key.strip())
    note_caller(caller)
    seconds = settings.session_hours * 3600
    begun = services.database.write(
        lambda session: rules.begin(
            session,
            caller,
            user_agent=request.headers.get("user-agent", ""),
            seconds=seconds,
        )
    )
    set_cookie(response, begun.secret, seconds=seconds, is_https=request.url.scheme == "https")
    response.headers["Cache-Control"] = "no-store"
    return _describe(services, begun.secret)


@router.delete("/v1/session", status_code=204, response_class=Response)
def log_out(request: Request, services: Use) -> Response:
    """End the session of this browser. Without one, nothing changes."""
    secret = session_cookie(request)
    response = Response(status_code=204)
    if secret is not None:
        check_csrf(request, secret)
        services.database.write(lambda session: rules.end(session, secret))
        services.sessions.forget()
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


@router.get("/v1/sessions")
def list_all(request: Request, caller: User, services: Use) -> Page[SessionView]:
    """List the valid sessions, newest first. An admin sees all, others those of their key."""
    secret = session_cookie(request)
    found = services.database.read(
        lambda session: rules.list_sessions(session, caller, secret=secret)
    )
    return Page[SessionView](
        data=list(found),
        first_id=found[0].id if found else None,
        last_id=found[-1].id if found else None,
    )


@router.delete("/v1/sessions", status_code=204, response_class=Response)
def end_all(caller: User, services: Use) -> Response:
    """Log out everywhere: end all sessions of the caller's key, this one included."""
    services.database.write(lambda session: rules.end_all(session, caller))
    services.sessions.forget()
    return Response(status_code=204)


@router.delete("/v1/sessions/{session_id}", status_code=204, response_class=Response)
def end_session(session_id: str, caller: User, services: Use) -> Response:
    """End a session. Its cookie stops working at once."""
    services.database.write(lambda session: rules.end_by_id(session, session_id, caller))
    services.sessions.forget()
    return Response(status_code=204)


def _describe(services: Services, secret: str) -> SessionState:
    """Return the state of a cookie's session; one that is not valid needs a login."""
    try:
        caller = services.sessions.look_up(secret)
    except ServiceError as error:
        if error.status != 401:
            raise
        return SessionState(login_required=True)
    digest = rules.hash_cookie(secret)

    def read(session: Session) -> tuple[str, WebSession | None]:
        key = session.get(ApiKey, caller.id)
        row = session.exec(select(WebSession).where(WebSession.secret_sha256 == digest)).first()
        return ("" if key is None else key.name), row

    name, row = services.database.read(read)
    return SessionState(
        login_required=True,
        caller=CallerView(key_id=caller.id, name=name, scope=caller.scope, project=caller.project),
        csrf_token=rules.csrf_token(secret),
        expires_at=None if row is None else row.expires_at,
    )
