"""HTTP to the service for `asyncio`; the rules of retries and errors are those of `connection`."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from redkiln.client.calls import Answer, Call
from redkiln.client.connection import (
    RetryPolicy,
    failure_of,
    given,
    http_options,
    is_repeatable,
    raise_for_status,
    retry_delay,
    spread,
    translated,
)
from redkiln.errors import ApiError, ConnectionFailed
from redkiln.settings import ClientSettings


class AsyncConnection:
    """A pool of HTTP connections to one service."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        policy: RetryPolicy,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = settings.url
        self._policy = policy
        self._http = httpx.AsyncClient(transport=transport, **http_options(settings))

    async def send(self, call: Call[Answer]) -> Answer:
        """Send a request, again if that may help, and return what its answer says.

        Raises:
            ApiError: The service refused.
            ConnectionFailed: There was no answer.
        """
        repeatable = call.repeatable if call.repeatable is not None else is_repeatable(call.method)
        attempt = 0
        while True:
            attempt += 1
            try:
                return call.read(await self._send_once(call))
            except (ApiError, ConnectionFailed) as error:
                delay = retry_delay(
                    failure_of(error), attempt=attempt, repeatable=repeatable, policy=self._policy
                )
                if delay is None:
                    raise
                await asyncio.sleep(spread(delay))

    @asynccontextmanager
    async def stream(
        self, path: str, *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[httpx.Response]:
        """Send a GET, once, whose body the caller reads.

        Raises:
            ApiError: The service refused.
            ConnectionFailed: There was no answer, or it broke off (also inside the block).
        """
        with translated(self.url):
            async with self._http.stream("GET", path, headers=headers) as response:
                if response.status_code >= 400:
                    await response.aread()
                raise_for_status(response)
                yield response

    async def close(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def _send_once(self, call: Call[Any]) -> httpx.Response:
        with translated(self.url):
            response = await self._http.request(
                call.method,
                call.path,
                params=given(call.params),
                json=call.json,
                headers=call.headers,
            )
        raise_for_status(response)
        return response
