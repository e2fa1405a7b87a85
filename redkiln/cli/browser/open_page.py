"""`open`: shows the web page of the service, or of one job, in the browser."""

import os
import sys
import webbrowser
from collections.abc import Mapping
from typing import Annotated

import typer

from redkiln.cli.arguments.completion import complete_job
from redkiln.cli.arguments.naming import find_job_id
from redkiln.cli.command import Session, command


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "open", rich_help_panel="Service", examples=(
        "redkiln open             # the queue, the GPUs and what has ended",
        "redkiln open last        # the curves of the newest job",
    ))(open_page)  # fmt: skip


def open_page(
    session: Session,
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB]",
            help="Id or its beginning, name, or `last`.",
            show_default=False,
            autocompletion=complete_job,
        ),
    ] = None,
) -> None:
    """Open the service's web page in the browser, and print its address."""
    path = "" if job is None else f"jobs/{find_job_id(session.client, job)}"
    url = f"{session.client.url.rstrip('/')}/{path}"
    is_opened = has_screen(sys.platform, os.environ) and webbrowser.open(url)
    if session.is_json:
        session.emit({"url": url, "is_opened": is_opened})
    else:
        session.say(url)


def has_screen(platform: str, environment: Mapping[str, str]) -> bool:
    """Return whether a graphical browser can appear: elsewhere a text browser would start."""
    if platform in ("win32", "darwin"):
        return True
    return any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
