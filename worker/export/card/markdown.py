"""Formats text and numbers for a card."""

from collections.abc import Iterable


def list_numbers(values: Iterable[float]) -> str:
    """Format numbers with four decimals, separated by commas."""
    return ", ".join(f"{value:.4f}" for value in values)


def percent(value: float | None) -> str:
    """Format a share with one decimal; a dash for None."""
    return "-" if value is None else f"{value:.1%}"


def escape_prose(text: str) -> str:
    """Escape a sentence as `escape` does, except for commands and names between backticks."""
    parts = " ".join(text.split()).split("`")
    if len(parts) % 2 == 0:  # one of them belongs to a name
        return escape(text)
    return "`".join(part if at % 2 else _escape(part) for at, part in enumerate(parts))


def as_sentence(text: str) -> str:
    """Return a message as an escaped sentence."""
    return f"{escape_prose(text[:1].upper() + text[1:])}."


def number(value: float) -> str:
    """Return four digits, or all digits of a larger whole number, as in `147,497`."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"


def escape(text: str) -> str:
    """Escape a class name, which comes from a user's folder and must not become markup.

    A space replaces each run of white space, because the end of a line would split a table.
    """
    return _escape(" ".join(text.split()))


def _escape(text: str) -> str:
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|!" else c for c in text)
