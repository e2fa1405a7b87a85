"""Reports columns that the options name but the table does not have."""

from collections.abc import Sequence
from datetime import UTC, datetime

from redkiln.dates import derive_from_date
from redkiln.nearest import find_nearest
from redkiln.tables import DAYS_SINCE, TableOptions
from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.report import problem, quote, show

_MAX_UNKNOWN = 20
"""Maximum unknown columns reported one by one."""
_PARTS = frozenset(derive_from_date(datetime(2000, 1, 1, tzinfo=UTC)))


def find_unknown(options: TableOptions, names: Sequence[str]) -> list[DatasetProblem]:
    """Report columns that the options name but the table does not have."""
    asked = [options.target, options.text, *_without_derived(options, names)]
    unknown = [name for name in dict.fromkeys(asked) if name is not None and name not in names]
    # Each one is compared with all columns, so their number is limited.
    return [_unknown(name, names) for name in unknown[:_MAX_UNKNOWN]]


def _unknown(name: str, names: Sequence[str]) -> DatasetProblem:
    message = f"the table does not have a column {quote(name)}{_name_nearest(name, names)}"
    return problem("unknown_column", message)


def _name_nearest(name: str, names: Sequence[str]) -> str:
    """Return the end of a message about an unknown column: a suggestion, or the columns."""
    lower = {known.casefold(): known for known in names}
    if name.casefold() in lower:
        return f"; did you mean {quote(lower[name.casefold()])}?"
    near = find_nearest(name, names)
    shown = ", ".join(show(known) for known in names[:20]) + (", ..." if len(names) > 20 else "")
    return near or f"; the columns are: {shown}"


def _without_derived(options: TableOptions, names: Sequence[str]) -> list[str]:
    """Return the columns that have a type, except numbers that may be derived from dates."""

    def may_be_derived(name: str, use: str) -> bool:
        column, _, part = name.rpartition(".")
        end, _, start = name.partition(f".{DAYS_SINCE}_")
        is_known = (column in names and part in _PARTS) or (end in names and start in names)
        return is_known and use in ("numeric", "ignored")

    return [name for name, use in options.columns.items() if not may_be_derived(name, use)]
