"""Who makes a request, as far as access is concerned."""

from dataclasses import dataclass
from typing import Literal

KeyScope = Literal["user", "scripts", "worker", "admin"]


@dataclass(frozen=True)
class Caller:
    """The person or program that makes a request.

    Attributes:
        id: The id of its key; `local` where the service asks for none.
        scope: What it may do.
    """

    id: str
    scope: KeyScope
