"""Lists problems of a data set for people: places with the same problem are one line."""

from collections.abc import Sequence

from redkiln.views.dataset import DatasetProblem

MOST_LINES = 20
MOST_PLACES = 5
_LINE = ", line "


def list_problems(problems: Sequence[DatasetProblem]) -> list[tuple[str | None, str]]:
    """Return the places and the message of each problem, in the order of the first places.

    Only `MOST_LINES` lines are returned, and `MOST_PLACES` places of each.

    Args:
        problems: Problems with their files or rows.
    """
    lines = list(_group(problems).items())[:MOST_LINES]
    return [(_join(found) if found else None, message) for message, found in lines]


def count_unlisted(problems: Sequence[DatasetProblem]) -> int:
    """Return how many problems `list_problems` leaves out."""
    shown = {message for _, message in list_problems(problems)}
    return sum(item.message not in shown for item in problems)


def has_unlisted_places(problems: Sequence[DatasetProblem]) -> bool:
    """Return whether a line of `list_problems` only counts some of its places."""
    return any(len(found) > MOST_PLACES for found in _group(problems).values())


def _group(problems: Sequence[DatasetProblem]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    for item in problems:
        places.setdefault(item.message, []).extend([item.path] if item.path else [])
    return places


def _join(places: list[str]) -> str:
    """Return the first places; lines of one file as `labels.csv, lines 3, 4 and 7 more`."""
    files = {place.rpartition(_LINE)[0] for place in places}
    if len(places) > 1 and len(files) == 1 and (file := files.pop()):
        places = [place.rpartition(_LINE)[2] for place in places]
        places[0] = f"{file}, lines {places[0]}"
    shown, rest = places[:MOST_PLACES], len(places) - MOST_PLACES
    return f"{', '.join(shown)} and {rest} more" if rest > 0 else ", ".join(shown)
