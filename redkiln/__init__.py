"""Redkiln: train models on AMD GPUs over HTTP and get verified ONNX back.

This package holds what all sides share (job spec, protocol, events, failures) and everything that
a user installs: `Client` and the `redkiln` command.
"""

from typing import TYPE_CHECKING, Any

from redkiln.version import __version__

if TYPE_CHECKING:
    from redkiln.client import Client
    from redkiln.client.async_client import AsyncClient
    from redkiln.errors import (
        ApiError,
        Conflict,
        ConnectionFailed,
        DatasetInvalid,
        DatasetWarning,
        ModelError,
        NotAuthorized,
        NotFound,
        RedkilnError,
        Rejected,
        Unavailable,
        WaitTimeout,
    )
    from redkiln.reporting import is_resumed, log

__all__ = [
    "ApiError",
    "AsyncClient",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "DatasetInvalid",
    "DatasetWarning",
    "ModelError",
    "NotAuthorized",
    "NotFound",
    "RedkilnError",
    "Rejected",
    "Unavailable",
    "WaitTimeout",
    "__version__",
    "is_resumed",
    "log",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    # Lazy, because the worker and the service import this package too and need no HTTP client.
    if name == "Client":
        from redkiln.client import Client

        return Client
    if name == "AsyncClient":
        from redkiln.client.async_client import AsyncClient

        return AsyncClient
    if name in ("log", "is_resumed"):
        from redkiln import reporting

        return getattr(reporting, name)
    if name in __all__:
        from redkiln import errors

        return getattr(errors, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
