"""Prints errors: the service's message and the place in the user's file that it is about."""

from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from redkiln.advice.places import count_unlisted, has_unlisted_places, list_problems
from redkiln.advice.wording import as_options
from redkiln.cli.exit_codes import exit_code_of_error
from redkiln.cli.view.terminal import print_line
from redkiln.errors import ApiError, DatasetInvalid, RedkilnError
from redkiln.views.dataset import DatasetView

Locate = Callable[[str], str | None]
"""Maps a JSON pointer to the place where the user wrote the value (`flowers.yaml:7`), or None."""


class UsageError(RedkilnError):
    """What the user named is missing or cannot be used; the message says what to do instead."""


def print_error(console: Console, error: RedkilnError, *, locate: Locate | None = None) -> None:
    """Print what went wrong, in full sentences and without a traceback."""
    if isinstance(error, ApiError):
        _print_problem(console, error, locate or (lambda _pointer: None))
    elif isinstance(error, DatasetInvalid):
        print_invalid_dataset(console, error.dataset)
    else:
        _print(console, Text.assemble(("Error: ", "bold red"), str(error)))


def error_document(error: RedkilnError) -> dict[str, Any]:
    """Return the error as `--json` prints it."""
    document: dict[str, Any] = {
        "exit_code": int(exit_code_of_error(error)),
        "message": as_options(error.text)
        if isinstance(error, ApiError | DatasetInvalid)
        else str(error),
    }
    if isinstance(error, ApiError):
        document |= error.problem.model_dump(mode="json")
    if isinstance(error, DatasetInvalid):
        document["dataset"] = error.dataset.model_dump(mode="json")
    return {"error": document}


def print_invalid_dataset(console: Console, dataset: DatasetView) -> None:
    """Print why a data set was refused, file by file."""
    head = Text.assemble(("Error: ", "bold red"), f"data set {dataset.name} is invalid")
    _print(console, head)
    for places, message in list_problems(dataset.errors):
        place = Text(f"  {places}: " if places else "  ", style="bold")
        _print(console, place + Text(as_options(message)))
    rest = count_unlisted(dataset.errors)
    if rest or has_unlisted_places(dataset.errors):
        more = f"and {rest} more" if rest else "all places"
        hint = f"  {more}: redkiln datasets show {dataset.id} --json"
        _print(console, Text(hint, style="dim"))


def _print_problem(console: Console, error: ApiError, locate: Locate) -> None:
    _print(console, Text.assemble(("Error: ", "bold red"), *_head(error)))
    for item in error.errors:
        place = locate(item.pointer)
        line = Text("  ")
        if place:
            line.append(f"{place}  ", style="bold")
        if item.pointer:
            line.append(f"{item.pointer}: ", style="cyan")
        _print(console, line + Text(as_options(item.message)))
    if hint := _hint(error):
        _print(console, Text(hint, style="dim"))
    if error.request_id and error.status >= 500:
        _print(console, Text(f"request {error.request_id}", style="dim"))


def _head(error: ApiError) -> Iterator[str | tuple[str, str]]:
    detail = error.detail or ""
    # The detail may only repeat the errors, which are printed below with their places.
    if error.errors and all(item.message in detail for item in error.errors):
        detail = ""
    if error.status >= 500 or error.code == "http":  # the status helps those who run the service
        yield error.title or "no answer", "bold"
        yield f" ({error.status})", "dim"
    elif error.code == "invalid_spec":
        yield error.title, "bold"
    elif not detail:
        yield "the request is wrong" if error.errors else f"refused ({error.title})", "bold"
    else:
        yield as_options(detail)
        return
    if detail:
        yield f": {as_options(detail)}"


def _hint(error: ApiError) -> str:
    if error.status == 401:
        return "Give a key with --key, REDKILN_KEY or REDKILN_KEY_FILE."
    if error.status == 403 and error.code in ("forbidden", "missing_scope"):
        return "List the keys and their scopes: redkiln keys (needs an admin key)"
    return ""


def _print(console: Console, text: Text) -> None:
    print_line(console, text, is_prose=True)
