"""Streams that end when their caller loses access: the key is revoked, or the session is over.

A request's key is checked once, when the request begins. A stream lasts for hours, so it is checked
again before each piece. A key or session that was checked in the last few seconds costs no query.
"""

from collections.abc import AsyncIterator

from fastapi import Request

from service.errors import Forbidden, ServiceError, Unauthorized
from service.http.access import find_caller
from service.services import Services


async def while_allowed(
    pieces: AsyncIterator[bytes], request: Request, services: Services
) -> AsyncIterator[bytes]:
    """Yield the pieces of a stream until its caller may no longer read it.

    A stream without news ends with its next comment. An empty piece is only a chance to check.
    """
    async for piece in pieces:
        if not await _is_allowed(request, services):
            return
        if piece:
            yield piece


async def _is_allowed(request: Request, services: Services) -> bool:
    """Return whether the key or session is still valid; while the database is away, it is."""
    try:
        await find_caller(request, services)
    except (Unauthorized, Forbidden):
        return False
    except ServiceError:
        return True
    return True
