"""Outcomes of patches as text, for terminals and logs."""

from collections.abc import Sequence

from redkiln.views.hardware import PatchOutcome

MARKS = {"applied": "+", "skipped": " ", "refused": "!", "user": "="}


def describe_outcomes(outcomes: Sequence[PatchOutcome]) -> str:
    """Format one line for each patch, followed by the settings that it changes."""
    width = max((len(outcome.name) for outcome in outcomes), default=0)
    lines = []
    for outcome in outcomes:
        mark = MARKS[outcome.outcome]
        lines.append(f" {mark} {outcome.name:<{width}}  {outcome.outcome:<7}  {outcome.why}")
        changes = {**outcome.environment, **outcome.settings}
        lines += [f"   {'':<{width}}           {name}={value}" for name, value in changes.items()]
    return "\n".join(lines)
