"""Applies the torch settings of the agent's patches in the process that trains."""

from collections.abc import Sequence

import torch

from redkiln.views.hardware import PatchOutcome
from worker.hardware.torch_settings import apply_settings


def apply_patches(outcomes: Sequence[PatchOutcome]) -> list[PatchOutcome]:
    """Apply the settings of each patch for the life of the process.

    Returns:
        The updated outcomes: a patch whose setting this torch does not have is skipped.
    """
    return [_apply(outcome) for outcome in outcomes]


def _apply(outcome: PatchOutcome) -> PatchOutcome:
    undo, problems = apply_settings(torch, outcome.settings)
    if not problems:
        return outcome
    undo()
    why = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
    return outcome.model_copy(
        update={"outcome": "skipped", "why": f"{why} (wanted: {outcome.why})", "settings": {}}
    )


def has_variable(outcomes: Sequence[PatchOutcome], name: str) -> bool:
    """Return whether a variable is 1 in this process, set by a patch or by the user."""
    return any("1" in (o.environment.get(name), o.user.get(name)) for o in outcomes)
