"""Words and numbers in a card."""

from collections.abc import Iterable


def list_numbers(values: Iterable[float]) -> str:
    """Numbers with four decimals and commas between them."""
    return ", ".join(f"{value:.4f}" for value in values)


def percent(value: float | None) -> str:
    """A share with one decimal; a dash where there is none."""
    return "-" if value is None else f"{value:.1%}"


def escape(text: str) -> str:
    """A class name is a user's folder name; it must not become markup."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|!" else c for c in text)
