"""The base class of all parts of the client: how they send requests."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from redkiln.client.connection import Connection, RetryPolicy
from redkiln.views.page import Page

View = TypeVar("View", bound=BaseModel)


class Requests:
    """A connection, and the two ways to read from it: one object, or pages of a list."""

    _connection: Connection
    _policy: RetryPolicy

    def _get(self, path: str, view: type[View], params: Mapping[str, Any] | None = None) -> View:
        return view.model_validate_json(
            self._connection.request("GET", path, params=params).content
        )

    def _pages(
        self, path: str, view: type[View], params: Mapping[str, Any] | None = None
    ) -> Iterator[View]:
        after: str | None = None
        while True:
            response = self._connection.request(
                "GET", path, params={**(params or {}), "after": after}
            )
            page = Page[view].model_validate_json(response.content)  # type: ignore[valid-type]
            yield from page.data
            if not page.has_more or page.last_id is None:
                return
            after = page.last_id
