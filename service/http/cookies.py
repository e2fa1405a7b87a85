"""The cookie of a session, and the token that its requests must show.

The cookie is `HttpOnly`, so that no script can read it, and `SameSite=Strict`, so that other sites
cannot use it. A request that changes something must also have the header `Redkiln-CSRF`, which
other sites cannot set, with a value that only the page itself can read.
"""

from fastapi import Response

COOKIE = "redkiln_session"
CSRF_HEADER = "Redkiln-CSRF"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def set_cookie(response: Response, secret: str, *, seconds: float, is_https: bool) -> None:
    """Set the cookie of a session in a response."""
    response.set_cookie(
        COOKIE,
        secret,
        max_age=int(seconds),
        path="/",
        secure=is_https,
        httponly=True,
        samesite="strict",
    )
