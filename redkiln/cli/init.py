"""`redkiln init`: looks at data and writes a commented spec for it."""

from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.text import Text

from redkiln.cli.arguments.completion import complete_data
from redkiln.cli.arguments.table_options import TableArguments
from redkiln.cli.command import Session, command
from redkiln.cli.problems import UsageError
from redkiln.cli.train import prepare_data
from redkiln.cli.view.first_spec import write_first_spec
from redkiln.tasks import TASKS


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    command(app, "init", rich_help_panel="Train", examples=(
        "redkiln init houses.csv --target price       # writes houses.yaml",
        "redkiln init flowers -o -                    # prints a spec for a data set",
    ))(init)  # fmt: skip


def init(
    session: Session,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder, archive or table, or the name of a data set that was pushed.",
            show_default=False,
            autocompletion=complete_data,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File to write (default ./DATA_SET.yaml); `-` prints.",
                     show_default=False),
    ] = None,
    is_forced: Annotated[
        bool, typer.Option("--force", help="Replace a file that exists.")
    ] = False,
    *,
    table: TableArguments,
) -> None:  # fmt: skip
    """Look at data and write a commented spec that trains on it.

    Registers the data like `redkiln train`; nothing is queued.
    """
    dataset = prepare_data(session, data, table.collect())
    path = output or Path(f"{dataset.name.rpartition(':')[2]}.yaml")
    is_printed = str(path) == "-"
    if not is_printed and path.exists() and not is_forced:
        raise UsageError(f"{path} exists. Replace it with --force, or give another with -o.")
    checked = session.client.dry_run({"dataset": dataset.id})
    text = write_first_spec(dataset, checked.spec, models=list_models(checked.spec), path=path.name)
    if not is_printed:
        path.write_text(text, encoding="utf-8")
    if session.is_json:
        session.emit({"path": None if is_printed else str(path), "dataset_id": dataset.id,
                      "spec": text})  # fmt: skip
    elif is_printed:
        session.say(text.rstrip())
    else:
        session.say(f"wrote {path}")
        session.note(Text(f"Queue it: redkiln submit {path} --watch", style="dim"))


def list_models(spec: dict[str, Any]) -> list[str]:
    """Return the names that the task's model can have, if they are a fixed list."""
    model: Any = TASKS[spec["task"]].model_fields["model"].annotation
    names = get_args(model.model_fields["name"].annotation)
    # A union of lists is nested once more.
    return [name for part in names for name in (get_args(part) or (part,)) if isinstance(name, str)]
