"""Shows a job in a notebook, and keeps what it shows up to date until the job has ended."""

import importlib
import time
from collections.abc import Callable, Iterable
from typing import Any

from redkiln.errors import RedkilnError

REFRESH_SECONDS = 1.0
"""Least time between two changes of what is shown."""


def show_live(
    render: Callable[[], str],
    updates: Iterable[object],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Show HTML in a notebook, and again after each update.

    Args:
        render: Returns the present HTML.
        updates: Waits for each change; its end is the end of the view.
        clock: Returns seconds; two changes of the view are REFRESH_SECONDS apart at least.

    Raises:
        RedkilnError: IPython is not installed.
    """
    display = _load_display()
    handle = display.display(display.HTML(render()), display_id=True)
    shown_at = clock()
    for _ in updates:
        if handle is not None and clock() >= shown_at + REFRESH_SECONDS:
            handle.update(display.HTML(render()))
            shown_at = clock()
    if handle is not None:  # outside a notebook IPython returns none
        handle.update(display.HTML(render()))


def _load_display() -> Any:
    try:
        return importlib.import_module("IPython.display")
    except ModuleNotFoundError as error:
        message = "live needs IPython, which Jupyter installs. Call it in a notebook"
        raise RedkilnError(message) from error
