"""Markdown that the generated pages are made of, in the form that mdformat leaves alone."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Build a table; `|` in a cell is escaped and line breaks become spaces."""
    lines = [head, ["--"] * len(head), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def code(text: str) -> str:
    """Put text into a code span; empty text stays empty."""
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
