"""Parses large JSON bodies in a thread that lets others run.

The C parser of `json` holds the interpreter's lock until a whole document is parsed, even in a
thread, so that one large body would delay every request. The standard library's parser in Python
is slower, but other threads run between its steps. Both accept the same documents, except that the
slower one accepts about half the depth. Full garbage collections, which would look at all of a
document again and again, wait until its request has been served.
"""

import asyncio
import functools
import gc
import json
import json.scanner
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

LARGE_BYTES = 64 * 1024
"""Size of a body from which it is parsed aside; a smaller one takes a few milliseconds."""
_THREAD = ThreadPoolExecutor(1, "bodies")
"""One thread: the more of them parse, the longer the event loop waits for its turn."""
_NEVER = 10**9
T = TypeVar("T")


class _JsonRequest(Request):
    """A request whose JSON body is parsed next to other requests."""

    async def json(self) -> Any:
        """Return the parsed body.

        Raises:
            ValueError: The body is not JSON.
            RecursionError: The body is nested too deeply.
        """
        body = await self.body()
        return await apply(load_json, body)


class JsonRoute(APIRoute):
    """A route that parses a large JSON body aside."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that serves a request of the route."""
        serve = super().get_route_handler()

        async def serve_json(request: Request) -> Response:
            return await serve(_JsonRequest(request.scope, request.receive))

        return serve_json


class FullCollections:
    """Postpones full garbage collections while large bodies are in memory.

    The collector belongs to the process, so its applications share `FULL_COLLECTIONS`.
    """

    def __init__(self) -> None:
        self._num_bodies = 0
        self._thresholds = gc.get_threshold()
        self._lock = threading.Lock()

    @contextmanager
    def postponed(self, body: bytes) -> Iterator[None]:
        """Serve a request inside the block."""
        if len(body) < LARGE_BYTES:
            yield
            return
        with self._lock:
            if self._num_bodies == 0:
                self._thresholds = gc.get_threshold()
                gc.set_threshold(*self._thresholds[:2], _NEVER)
            self._num_bodies += 1
        try:
            yield
        finally:
            with self._lock:
                self._num_bodies -= 1
                if self._num_bodies == 0:
                    gc.set_threshold(*self._thresholds)


FULL_COLLECTIONS = FullCollections()


async def apply(function: Callable[[bytes], T], body: bytes) -> T:
    """Call a function with a body, aside if it is large, so that others are served meanwhile."""
    if len(body) < LARGE_BYTES:
        return function(body)
    call = functools.partial(function, body)
    return await asyncio.get_running_loop().run_in_executor(_THREAD, call)


def load_json(body: bytes) -> Any:
    """Parse a JSON document; while a large one is parsed, other threads run.

    Raises:
        ValueError: The body is not JSON.
        RecursionError: The body is nested too deeply.
    """
    return json.loads(body, cls=None if len(body) < LARGE_BYTES else _PatientDecoder)


class _PatientDecoder(json.JSONDecoder):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.scan_once = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined]
