"""Runs the service: `python -m service`, configured by `REDKILN_*` variables."""

import logging
from types import FrameType

from redkiln.imports import collector_off

with collector_off():
    import structlog
    import uvicorn
    from fastapi import FastAPI

    from service.app import create_app
    from service.http.protocol import BoundedProtocol, bound_connections
    from service.settings import Settings

_GRACE_SECONDS = 5
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Server(uvicorn.Server):
    """Ends the event streams first, because they would block the shutdown for ever."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle SIGTERM or SIGINT."""
        app = self.config.app
        if isinstance(app, FastAPI):
            app.state.changes.close()
        super().handle_exit(sig, frame)


def configure_logs(level: str) -> None:
    """Log to stderr, one JSON object per line, including the libraries' messages."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
            ],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(level=_LEVELS[level], handlers=[handler], force=True)


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    settings = Settings()
    configure_logs(settings.log_level)
    bound_connections()
    config = uvicorn.Config(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=settings.log_level == "debug",
        timeout_graceful_shutdown=_GRACE_SECONDS,
        server_header=False,
        http=BoundedProtocol,
    )
    Server(config).run()


if __name__ == "__main__":
    main()
