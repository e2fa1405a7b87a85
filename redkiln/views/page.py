"""One page of any list that the API returns."""

from typing import Generic, Literal, TypeVar

from pydantic import BaseModel

Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    """One page of a list; request the next with `after=last_id` while `has_more`."""

    object: Literal["list"] = "list"
    data: list[Item]
    has_more: bool = False
    first_id: str | None = None
    last_id: str | None = None
