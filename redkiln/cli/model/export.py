"""`redkiln export`: further variants of a finished job's model, without training."""

from typing import Annotated, Any

import typer

from redkiln.cli.arguments.naming import find_job_id
from redkiln.cli.command import Session, command
from redkiln.cli.jobs import JobName, print_queued, show_to_the_end


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "export", rich_help_panel="Results", examples=(
        "redkiln export last --variant int8-static --watch",
        "redkiln export flowers --variant fp16 --variant int8-dynamic",
        "redkiln export flowers --opset 17",
    ))(export)  # fmt: skip


def export(
    session: Session,
    job: JobName,
    variants: Annotated[
        list[str] | None,
        typer.Option("--variant", metavar="NAME", show_default=False,
                     help="File to write next to the one in float32: fp16, int8-dynamic or "
                     "int8-static. Repeatable; without it, the variants of the job."),
    ] = None,
    opset: Annotated[
        int | None,
        typer.Option("--opset", metavar="N", show_default=False, help="ONNX operator set."),
    ] = None,
    is_watched: Annotated[
        bool, typer.Option("--watch", "-w", help="Show the export live until it ends.")
    ] = False,
) -> None:  # fmt: skip
    """Export the model of a finished job again, in other variants.

    The export is a separate job. It trains nothing: it takes the weights of
    the finished job, which must have succeeded, and compares each file with
    PyTorch.
    """
    asked = {"variants": variants, "opset": opset}
    options: dict[str, Any] = {name: value for name, value in asked.items() if value}
    queued = session.client.export(find_job_id(session.client, job), **options)
    if is_watched:
        show_to_the_end(session, queued.id)
    else:
        print_queued(session, queued)
