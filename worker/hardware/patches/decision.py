"""What a patch decides, and what every patch module offers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from worker.hardware.patches.facts import PatchFacts

Scope = Literal["any", "gpu", "rocm"]
"""Where a patch has a meaning: everywhere, on any GPU, on AMD's alone."""


@dataclass(frozen=True)
class Decision:
    """Do it or leave it, and the facts that decided.

    Attributes:
        environment: variables to set before Python starts.
        settings: switches of torch, by their full names (worker.hardware.torch_settings).
    """

    outcome: Literal["applied", "skipped", "refused"]
    why: str
    environment: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


class Patch(Protocol):
    """A module of this package."""

    __name__: str
    SCOPE: Scope
    VARIABLES: tuple[str, ...]
    """Variables that it is about; a user who has set one has decided. `*` ends a prefix."""
    decide: Callable[[PatchFacts], Decision]


def apply(
    why: str,
    *,
    environment: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Decision:
    """Do it."""
    return Decision("applied", why, environment or {}, settings or {})


def skip(why: str) -> Decision:
    """There is nothing to do, or nothing that is known to help."""
    return Decision("skipped", why)


def skip_unknown() -> Decision:
    """Nothing is known of the target, and nothing is guessed."""
    return skip("the target is not in the table: torch chooses by itself")


def refuse(why: str) -> Decision:
    """It would do harm, or might and nothing shows that it does not."""
    return Decision("refused", why)
