"""The caller of a request, for access checks."""

from dataclasses import dataclass
from typing import Literal

KeyScope = Literal["user", "scripts", "worker", "admin"]


@dataclass(frozen=True)
class Caller:
    """The person or program that makes a request.

    Attributes:
        id: Id of the key; `local` if the service requires no key.
        scope: Scope of the key.
    """

    id: str
    scope: KeyScope
