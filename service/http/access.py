"""Who may call what.

On a loopback address users need no key, but every request must be addressed to this machine's own
names: checking `Host` stops DNS rebinding, checking `Origin` stops other web sites that a browser
has open. On any other address, or with `REDKILN_AUTH=keys`, every request needs
`Authorization: Bearer`, or the cookie of a session (`service.http.cookies`). Workers always need a
key. The content type of every body must be JSON or
raw bytes, because browsers send forms and plain text across sites without asking.
"""

import hmac
import ipaddress
from collections.abc import Set
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from service.audit.record import note_caller
from service.errors import Forbidden, ServiceError, Unauthorized, UnsupportedMedia
from service.http.cookies import COOKIE, CSRF_HEADER, SAFE_METHODS
from service.http.media import base_type
from service.http.problems import render_error, request_id_of
from service.keys.caller import Caller, KeyScope
from service.projects.owners import check_owner, has_owner
from service.services import Services, Use
from service.sessions.rules import csrf_token
from service.settings import Settings

_USERS: set[KeyScope] = {"user", "scripts", "admin"}
_SCRIPTS: set[KeyScope] = {"scripts", "admin"}
"""Scopes whose keys may run scripts on the workers."""

_WITH_BODY = {"POST", "PUT", "PATCH", "DELETE"}
_FORM = "application/x-www-form-urlencoded"
_TABLES = {"text/csv", "text/tab-separated-values"}
"""Text types that a browser does not send across sites without a preflight request."""

_COUNTED = "redkiln.counted"

_bearer = HTTPBearer(
    auto_error=False,
    scheme_name="key",
    description="An API key. Not needed while the service listens only on a loopback address.",
)


LOCAL = Caller("local", "admin")
"""The caller of every request while only this machine can reach the service."""


async def require_user(
    request: Request,
    services: Use,
    _shown: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Caller:
    """Accept users: keys with scope `user`, `scripts` or `admin`.

    Raises:
        Unauthorized: The key is missing, unknown or revoked.
        Forbidden: It is a worker's key.
    """
    return await _require(request, services, _USERS)


async def require_scripts(
    request: Request,
    services: Use,
    _shown: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Caller:
    """Accept callers that may run scripts.

    Raises:
        Unauthorized: The key is missing, unknown or revoked.
        Forbidden: The key has another scope, or this service does not run scripts.
    """
    caller = await _require(request, services, _USERS)
    if not may_run_scripts(caller, services.settings):
        raise Forbidden(why_no_scripts(caller), code="scripts_not_allowed")
    return caller


def may_run_scripts(caller: Caller, settings: Settings) -> bool:
    """Return whether a caller may run scripts, by the key's scope or, without keys, the setting."""
    return settings.scripts == "on" if caller == LOCAL else caller.scope in _SCRIPTS


def why_no_scripts(caller: Caller) -> str:
    """Return the message for a caller that may not run scripts."""
    if caller == LOCAL:
        return (
            "this service does not run users' code (scripts, own modules); start it with "
            "REDKILN_SCRIPTS=on: "
            "`make up UP=--scripts`, or with Docker the line REDKILN_SCRIPTS=on in .env"
        )
    return (
        "scripts and own modules need a key with scope scripts or admin; yours has scope "
        f"{caller.scope}"
    )


async def require_admin(
    request: Request,
    services: Use,
    _shown: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Caller:
    """Accept admins.

    Raises:
        Unauthorized: The key is missing, unknown or revoked.
        Forbidden: The key has another scope.
    """
    return await _require(request, services, {"admin"})


async def require_worker(
    request: Request,
    services: Use,
    _shown: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Caller:
    """Accept workers, which need a key even on a loopback address.

    Raises:
        Unauthorized: The key is missing, unknown or revoked.
        Forbidden: The key has another scope.
    """
    caller = await check_key(request, services)
    _check_scope(caller, {"worker"})
    return caller


def bearer_token(request: Request) -> str:
    """Return the token of a request's `Authorization` header.

    Raises:
        Unauthorized: The header has no token.
    """
    return read_bearer(request.headers)


def read_bearer(headers: Headers) -> str:
    """Return the token of the `Authorization` header.

    Raises:
        Unauthorized: The header has no token.
    """
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        message = "the request has no API key; send it as `Authorization: Bearer KEY`"
        raise Unauthorized(message, code="missing_key")
    return token.strip()


async def find_caller(request: Request, services: Services) -> Caller:
    """Return who sends a request, by its headers alone.

    Raises:
        Unauthorized: The key or the session is missing, unknown or revoked.
        Forbidden: Another site sent a request with a session's cookie.
        TooManyRequests: The key sends too many requests.
    """
    if not services.settings.needs_keys:
        return LOCAL
    secret = session_cookie(request)
    if secret is not None and "authorization" not in request.headers:
        caller = await _check_session(request, services, secret=secret)
    else:
        caller = await check_key(request, services)
    if not request.scope.get(_COUNTED):
        request.scope[_COUNTED] = True  # the gate and the endpoint both ask
        services.rates.take(caller)
    return caller


async def check_key(request: Request, services: Services) -> Caller:
    """Return the caller of a request's API key.

    Raises:
        Unauthorized: The key is missing, unknown or revoked.
    """
    token = bearer_token(request)
    caller = services.keys.recall(token)
    if caller is None:
        caller = await run_in_threadpool(services.keys.look_up, token)
    return caller


class AccessMiddleware:
    """Refuses foreign hosts and origins on a loopback address, and form bodies everywhere."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        fault = find_fault(scope.get("method", "GET"), Headers(scope=scope), self._settings)
        if fault is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": fault.code})
        else:
            response = render_error(fault, request_id=request_id_of(scope))
            await response(scope, receive, send)


def find_fault(method: str, headers: Headers, settings: Settings) -> ServiceError | None:
    """Return why a request is refused, whatever its path; None for an acceptable one."""
    host = headers.get("host", "")
    origin = headers.get("origin")
    if not settings.needs_keys:
        if not is_own_host(host, {settings.public_host, *settings.host_names}):
            message = (
                f"the Host header {host!r} is not a name of this machine; use localhost or "
                "127.0.0.1, or add the name to REDKILN_HOST_NAMES"
            )
            return Forbidden(message, code="foreign_host")
        if origin is not None and not is_same_origin(origin, host):
            message = f"requests from web pages of another site ({origin!r}) are not allowed"
            return Forbidden(message, code="foreign_origin")
    media_type = headers.get("content-type", "")
    if has_body(headers) and not is_accepted_media(method, media_type):
        return UnsupportedMedia(
            f"a body of type {media_type!r} is not accepted; send application/json, or raw bytes "
            "as application/octet-stream, application/zip, application/x-tar or text/csv; with "
            "curl: -H 'Content-Type: application/json' for JSON, or -H 'Content-Type: text/csv' "
            "--data-binary @FILE for a table"
        )
    return None


def is_own_host(host: str, own_names: Set[str]) -> bool:
    """Return whether a `Host` header is a loopback address or one of this service's names."""
    name = _host_name(host)
    if name == "localhost" or name in own_names:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_same_origin(origin: str, host: str) -> bool:
    """Return whether an `Origin` header is the site that the request goes to."""
    return origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower())


def has_body(headers: Headers) -> bool:
    """Return whether a request announces a body."""
    return headers.get("content-length", "0").strip("0") != "" or "transfer-encoding" in headers


def is_accepted_media(method: str, content_type: str) -> bool:
    """Return whether browsers send a body of this type across sites only after a preflight."""
    media_type = base_type(content_type)
    if method not in _WITH_BODY or (method == "PUT" and not media_type):
        return True  # browsers send a preflight before a PUT
    return media_type in _TABLES or (media_type.startswith("application/") and media_type != _FORM)


def session_cookie(request: Request) -> str | None:
    """Return the cookie of a browser's session, if the request has one."""
    return request.cookies.get(COOKIE) or None


def check_csrf(request: Request, secret: str) -> None:
    """Check that a request with a cookie comes from the service's own page.

    Raises:
        Forbidden: Another site sent it, or it changes something and has not the session's token.
    """
    origin = request.headers.get("origin")
    if origin is not None and not is_same_origin(origin, request.headers.get("host", "")):
        message = f"requests from web pages of another site ({origin!r}) are not allowed"
        raise Forbidden(message, code="foreign_origin")
    if request.method in SAFE_METHODS:
        return
    shown = request.headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(shown.encode(), csrf_token(secret).encode()):
        message = (
            f"a request with a session's cookie needs the header {CSRF_HEADER}; "
            "GET /v1/session has its value"
        )
        raise Forbidden(message, code="bad_csrf")


async def _require(request: Request, services: Services, scopes: set[KeyScope]) -> Caller:
    caller = await find_caller(request, services)
    note_caller(caller)
    _check_scope(caller, scopes)
    if caller.sees is not None and any(map(has_owner, request.path_params)):
        await run_in_threadpool(check_owner, services.database, caller, request.path_params)
    return caller


async def _check_session(request: Request, services: Services, *, secret: str) -> Caller:
    check_csrf(request, secret)
    caller = services.sessions.recall(secret)
    if caller is None:
        caller = await run_in_threadpool(services.sessions.look_up, secret)
    return caller


def _check_scope(caller: Caller, scopes: set[KeyScope]) -> None:
    if caller.scope not in scopes:
        wanted = " or ".join(sorted(scopes))
        message = f"this request needs a key with scope {wanted}; yours has scope {caller.scope}"
        raise Forbidden(message, code="wrong_scope")


def _host_name(host: str) -> str:
    """Return the name in a `Host` header, without port and brackets."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]
