"""Serve the service with a bare route next to its own: `python -m bench.service.server`.

Settings come from the environment as usual; the bare route shows the speed of FastAPI itself.
"""

import uvicorn
from fastapi import FastAPI

from service.app import create_app
from service.settings import Settings

BARE_PATH = "/bare"


def build() -> FastAPI:
    """Build the service's application and add the bare route."""
    app = create_app(Settings())

    @app.get(BARE_PATH)
    async def bare() -> dict[str, str]:
        return {"status": "ok"}

    return app


if __name__ == "__main__":
    settings = Settings()
    uvicorn.run(
        build(), host=settings.host, port=settings.port, log_level="warning", access_log=False
    )
