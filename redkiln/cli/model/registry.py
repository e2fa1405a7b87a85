"""Commands on the model registry: list, register, move aliases, download, delete."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from redkiln.cli.arguments.completion import complete_job, complete_model, complete_reference
from redkiln.cli.arguments.naming import find_job_id
from redkiln.cli.command import Session, command, default_command, example_text
from redkiln.cli.problems import UsageError
from redkiln.cli.view import words
from redkiln.cli.view.render import Column, print_table
from redkiln.cli.view.transfers import download_counter, transfer_bars
from redkiln.views.models.registry import ModelVersion

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Registered model.", show_default=False,
                   autocompletion=complete_model),
]  # fmt: skip
Alias = Annotated[
    str, typer.Argument(metavar="ALIAS", help="Name of the alias.", show_default=False)
]
Reference = Annotated[
    str,
    typer.Argument(
        metavar="NAME@ALIAS", help="A model and an alias, a version or `latest`.",
        show_default=False, autocompletion=complete_reference,
    ),
]  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    group = typer.Typer(
        rich_markup_mode="rich",
        help="Name models, count their versions, and move aliases between them.",
        epilog=example_text((
            "redkiln models",
            "redkiln models register digits last --alias production",
            "redkiln models alias digits production 2",
            "redkiln predict digits@production photo.png",
        )),
    )  # fmt: skip
    app.add_typer(group, name="models", rich_help_panel="Results")
    default_command(group)(list_models)
    command(group, "show", examples=("redkiln models show digits",))(show)
    command(group, "register", examples=(
        "redkiln models register digits last --alias production",
        "redkiln models register digits JOB --file model-int8-static.onnx",
    ))(register_version)  # fmt: skip
    command(group, "alias", examples=("redkiln models alias digits production 2",))(alias)
    command(group, "unalias", examples=("redkiln models unalias digits production",))(unalias)
    command(group, "download", examples=("redkiln models download digits@production",))(download)
    command(group, "delete", examples=(
        "redkiln models delete digits 2",
        "redkiln models delete digits --all",
    ))(delete)  # fmt: skip


def split_reference(named: str) -> tuple[str, str]:
    """Return the name and the alias or version in `NAME@ALIAS`.

    Raises:
        UsageError: It has another form.
    """
    name, _, alias = named.partition("@")
    if not name or not alias:
        raise UsageError(
            f"{named!r} does not name a version. Write NAME@ALIAS, such as {name}@latest."
        )
    return name, alias


def list_models(session: Session) -> None:
    """List registered models with their aliases."""
    listed = session.client.registered_models()
    if session.is_json:
        session.emit(listed)
        return
    if not listed:
        session.note("No models yet. Register one: redkiln models register NAME JOB")
        return
    columns = (
        Column("name", when_narrow="cut"),
        Column("newest", is_right=True),
        Column("versions", is_right=True),
        Column("aliases", when_narrow="cut"),
    )
    rows = [
        (
            Text(one.name, style="bold"),
            str(one.newest_version or ""),
            str(one.num_versions),
            ", ".join(f"{alias} = {version}" for alias, version in one.aliases.items()),
        )
        for one in listed
    ]
    print_table(session.out, columns, rows)


def show(session: Session, name: Name) -> None:
    """List the versions of a model with the job and data that each comes from."""
    listed = session.client.model_versions(name)
    if session.is_json:
        session.emit(listed)
        return
    columns = (
        Column("version", is_right=True),
        Column("aliases", when_narrow="cut"),
        Column("file"),
        Column("size", is_right=True),
        Column("verified"),
        Column("job", when_narrow="cut"),
        Column("data", when_narrow="cut"),
        Column("registered", when_narrow="drop"),
    )
    print_table(session.out, columns, [_row(one) for one in listed])


def register_version(
    session: Session,
    name: Name,
    job: Annotated[
        str,
        typer.Argument(metavar="JOB", help="Job (id, name, or `last`) that has succeeded.",
                       show_default=False, autocompletion=complete_job),
    ],
    file: Annotated[
        str, typer.Option("--file", metavar="NAME", help="Model file of the job.")
    ] = "model.onnx",
    aliases: Annotated[
        list[str] | None,
        typer.Option("--alias", metavar="ALIAS", show_default=False,
                     help="Alias to move to the new version; repeatable."),
    ] = None,
    description: Annotated[
        str,
        typer.Option("--description", metavar="TEXT", show_default=False,
                     help="Text that is shown with the version."),
    ] = "",
) -> None:  # fmt: skip
    """Register a model file of a job as the next version of a model."""
    created = session.client.register_model(
        name,
        find_job_id(session.client, job),
        file=file,
        description=description,
        aliases=tuple(aliases or ()),
    )
    _say(session, created, f"{name} has version {created.version}")


def alias(
    session: Session,
    name: Name,
    alias: Alias,
    version: Annotated[
        int,
        typer.Argument(metavar="VERSION", min=1, help="Number of the version.",
                       show_default=False),
    ],
) -> None:  # fmt: skip
    """Let an alias name a version, at once for all readers."""
    moved = session.client.set_model_alias(name, alias, version)
    _say(session, moved, f"{name}@{alias} is version {version}")


def unalias(
    session: Session,
    name: Name,
    alias: Alias,
) -> None:
    """Remove an alias; its version stays."""
    session.client.remove_model_alias(name, alias)
    if session.is_json:
        session.emit({"removed": f"{name}@{alias}"})
    else:
        session.say(f"removed {name}@{alias}")


def download(
    session: Session,
    model: Reference,
    path: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File or folder (default ./FILE).",
                     show_default=False),
    ] = None,
) -> None:  # fmt: skip
    """Download the file of a version, and that of its weights, with their sha256 checked."""
    version = session.client.model_version(*split_reference(model))
    with transfer_bars(session.notes) as bars:
        count = download_counter(bars, version.file, version.size_bytes)
        target = session.client.download_version(version, path or Path(), on_bytes=count)
    _say(session, version, f"{target}: version {version.version} of {version.name}")


def delete(
    session: Session,
    name: Name,
    version: Annotated[
        int | None,
        typer.Argument(metavar="[VERSION]", min=1, help="Number of the version.",
                       show_default=False),
    ] = None,
    is_all: Annotated[
        bool, typer.Option("--all", help="Delete the model with all versions and aliases.")
    ] = False,
) -> None:  # fmt: skip
    """Delete a version, or a whole model. The jobs keep their files."""
    if (version is None) != is_all:
        raise UsageError("Give either the number of a version, or --all.")
    session.client.delete_model(name, version)
    what = name if version is None else f"version {version} of {name}"
    if session.is_json:
        session.emit({"deleted": what})
    else:
        session.say(f"deleted {what}")


def _say(session: Session, version: ModelVersion, text: str) -> None:
    if session.is_json:
        session.emit(version)
    else:
        session.say(text)


def _row(one: ModelVersion) -> tuple[Text | str, ...]:
    lineage = one.lineage
    verdict = {None: "", True: "yes", False: "NO"}[one.verified]
    data = lineage.dataset_name or ""
    print_ = lineage.dataset_fingerprint
    if print_ and print_ != data:
        data = f"{data} {print_[:12]}"
    return (
        Text(str(one.version), style="bold"),
        ", ".join(one.aliases),
        one.file,
        words.size(one.size_bytes),
        Text(verdict, style="bold yellow" if one.verified is False else ""),
        f"{lineage.job_name} ({lineage.job_id})",
        data,
        words.ago(one.created_at),
    )
