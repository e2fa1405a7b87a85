"""The caller of a request, for access checks."""

from dataclasses import dataclass
from typing import Literal

KeyScope = Literal["user", "scripts", "worker", "admin"]

DEFAULT_PROJECT = "default"
"""Project of a key that names none, and of everything on a service without keys."""


@dataclass(frozen=True)
class Caller:
    """The person or program that makes a request.

    Attributes:
        id: Id of the key; `local` if the service requires no key.
        scope: Scope of the key.
        project: Project of the key, which owns what the caller creates.
    """

    id: str
    scope: KeyScope
    project: str = DEFAULT_PROJECT

    @property
    def sees(self) -> str | None:
        """The only project whose things the caller may see; None for an admin, who sees all."""
        return None if self.scope == "admin" else self.project
