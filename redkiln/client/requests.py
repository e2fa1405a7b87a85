"""The base class of all parts of the client: how they send requests."""

from collections.abc import Iterator, Mapping
from typing import Any

from redkiln.client import calls
from redkiln.client.calls import View
from redkiln.client.connection import Connection, RetryPolicy


class Requests:
    """A connection, and the two ways to read from it: one object, or pages of a list."""

    _connection: Connection
    _policy: RetryPolicy

    def _get(self, path: str, view: type[View], params: Mapping[str, Any] | None = None) -> View:
        return self._connection.send(calls.get(path, view, params))

    def _pages(
        self, path: str, view: type[View], params: Mapping[str, Any] | None = None
    ) -> Iterator[View]:
        after: str | None = None
        while True:
            page = self._connection.send(calls.get_page(path, view, params, after=after))
            yield from page.data
            if not page.has_more or page.last_id is None:
                return
            after = page.last_id
