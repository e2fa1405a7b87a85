"""Serve the service with bare routes next to its own: `python -m bench.service.server`.

Settings come from the environment as usual; the bare routes show the speed of FastAPI itself.
"""

from typing import Annotated, Any

from redkiln.imports import collector_off

with collector_off():  # as the service does
    import uvicorn
    from fastapi import APIRouter, Body, FastAPI

    from service.app import create_app
    from service.http.bodies import JsonRoute
    from service.settings import Settings

BARE_PATH = "/bare"
AT_ONCE_PATH = "/bare/json-at-once"
ASIDE_PATH = "/v1/bare/json"


def build() -> FastAPI:
    """Build the service's application and add the bare routes."""
    app = create_app(Settings())

    @app.get(BARE_PATH)
    async def bare() -> dict[str, str]:
        return {"status": "ok"}

    app.post(AT_ONCE_PATH)(read_body)
    router = APIRouter(route_class=JsonRoute)
    router.post(ASIDE_PATH)(read_body)
    app.include_router(router)
    return app


async def read_body(body: Annotated[Any, Body()]) -> dict[str, int]:
    """Answer with the length of a JSON document."""
    return {"length": len(body)}


if __name__ == "__main__":
    settings = Settings()
    uvicorn.run(
        build(), host=settings.host, port=settings.port, log_level="warning", access_log=False
    )
