"""What a patch decides, and the interface of a patch module."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from worker.hardware.patches.facts import PatchFacts

Scope = Literal["any", "gpu", "rocm"]
"""Where a patch can apply: everywhere, on any GPU, or only on AMD GPUs."""


@dataclass(frozen=True)
class Decision:
    """Whether to apply a patch, and the facts that decided.

    Attributes:
        environment: Variables to set before Python starts.
        settings: Switches of torch, by their full names (worker.hardware.torch_settings).
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
    """Variables that the patch sets; if the user has set one, it is kept. `*` ends a prefix."""
    decide: Callable[[PatchFacts], Decision]


def apply(
    why: str,
    *,
    environment: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Decision:
    """Apply the patch."""
    return Decision("applied", why, environment or {}, settings or {})


def skip(why: str) -> Decision:
    """Do nothing, because nothing is needed or known to help."""
    return Decision("skipped", why)


def skip_unknown() -> Decision:
    """Do nothing, because the target is unknown and nothing is guessed."""
    return skip("the target is not in the table, so torch's own choice is kept")


def refuse(why: str) -> Decision:
    """Refuse a change that does harm, or that may do harm without evidence against it."""
    return Decision("refused", why)
