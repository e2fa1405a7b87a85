"""Formats text and numbers for a card."""

from collections.abc import Iterable


def list_numbers(values: Iterable[float]) -> str:
    """Format numbers with four decimals, separated by commas."""
    return ", ".join(f"{value:.4f}" for value in values)


def percent(value: float | None) -> str:
    """Format a share with one decimal; a dash for None."""
    return "-" if value is None else f"{value:.1%}"


def escape(text: str) -> str:
    """Escape a class name, which comes from a user's folder and must not become markup.

    A space replaces each run of white space, because the end of a line would split a table.
    """
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|!" else c for c in " ".join(text.split()))
