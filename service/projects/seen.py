"""The query parameter by which an admin lists one project."""

from typing import Annotated

from fastapi import Depends, Query

from redkiln.views.access.key import PROJECT_PATTERN
from service.errors import Forbidden
from service.http.access import require_user
from service.keys.caller import Caller


def find_seen(
    caller: Annotated[Caller, Depends(require_user)],
    project: Annotated[
        str | None,
        Query(pattern=PROJECT_PATTERN, description="Only this project; others need an admin key."),
    ] = None,
) -> str | None:
    """Return the project whose things a request lists; None for all, which only admins see.

    Raises:
        Forbidden: The caller asks for another project than their own.
    """
    if caller.sees is None:
        return project
    if project not in (None, caller.sees):
        message = (
            f"your key belongs to project {caller.sees!r}; only admins see other projects; remove "
            "?project, or use an admin key"
        )
        raise Forbidden(message, code="other_project")
    return caller.sees


Seen = Annotated[str | None, Depends(find_seen)]
"""Annotation for a list's parameter: the project to list, or None for all."""
