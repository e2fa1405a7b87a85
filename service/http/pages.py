"""The pages `/docs` and `/redoc`, which show the API in a browser without internet access.

FastAPI's own pages load their scripts from a content delivery network. These serve the same scripts
from the package `fastapi-offline` and forbid the browser to load anything from elsewhere.
"""

from pathlib import Path

import fastapi_offline
from fastapi import FastAPI
from fastapi.openapi.docs import get_redoc_html, get_swagger_ui_html
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles

from service.http.problem_codes import PAGE, show_problems

SCRIPTS = Path(fastapi_offline.__file__).parent / "static"
# Relative to the pages, so that they also work behind a proxy that adds a prefix.
SCHEMA_URL = "openapi.json"
STATIC_URL = "docs/static"
ONLY_OURS = {"Content-Security-Policy": "default-src 'self' 'unsafe-inline' data: blob:"}
"""Redoc would fetch its vendor's logo; its search runs in a worker created from a blob."""


def install_pages(app: FastAPI) -> None:
    """Serve both pages and the files they load."""
    app.mount(f"/{STATIC_URL}", StaticFiles(directory=SCRIPTS))
    app.add_api_route("/docs", show_swagger, include_in_schema=False, response_class=HTMLResponse)
    app.add_api_route(PAGE, show_problems, include_in_schema=False, response_class=HTMLResponse)
    app.add_api_route("/redoc", show_redoc, include_in_schema=False, response_class=HTMLResponse)


async def show_swagger() -> HTMLResponse:
    """Serve the API as Swagger UI, to try out."""
    page = get_swagger_ui_html(
        title="Redkiln API",
        openapi_url=SCHEMA_URL,
        swagger_js_url=f"{STATIC_URL}/swagger-ui-bundle.js",
        swagger_css_url=f"{STATIC_URL}/swagger-ui.css",
        swagger_favicon_url=f"{STATIC_URL}/favicon.png",
    )
    page.headers.update(ONLY_OURS)
    return page


async def show_redoc() -> HTMLResponse:
    """Serve the API as Redoc, to read."""
    page = get_redoc_html(
        title="Redkiln API",
        openapi_url=SCHEMA_URL,
        redoc_js_url=f"{STATIC_URL}/redoc.standalone.js",
        redoc_favicon_url=f"{STATIC_URL}/favicon.png",
        with_google_fonts=False,
    )
    page.headers.update(ONLY_OURS)
    return page
