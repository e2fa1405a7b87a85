"""The command `redkiln`: all its command groups and the options that precede them."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from redkiln.cli import (
    artifacts,
    bench,
    compare,
    datasets,
    doctor,
    gpus,
    init,
    jobs,
    preview,
    records,
    steering,
    tasks,
    train,
    workers,
)
from redkiln.cli.browser import open_page
from redkiln.cli.command import Json, Key, Session, Url, command, example_text
from redkiln.cli.exit_codes import MEANINGS
from redkiln.cli.model import export, predict, registry, verify
from redkiln.cli.owner import audit, keys, notices, storage
from redkiln.cli.script import run
from redkiln.errors import RedkilnError
from redkiln.version import __version__

_EXIT_STATUSES = "\n".join(f"  {code.value:>3}  {words}" for code, words in MEANINGS.items())
_EPILOG = "\n\n".join(
    (
        example_text(
            (
                "redkiln train ~/flowers              # folder in, verified ONNX out",
                "redkiln submit flowers.yaml --watch  # the same with a spec",
                "redkiln jobs                         # what is running and waiting",
            )
        )
        or "",
        f"[bold]Exit status[/bold]\n{_EXIT_STATUSES}",
        (
            "[bold]Environment[/bold]\n"
            "  REDKILN_URL       address of the service (default http://127.0.0.1:8321)\n"
            "  REDKILN_KEY       API key; REDKILN_KEY_FILE is the path of a file with the key\n"
            "  NO_COLOR          print without colours"
        ),
    )
)


class _Commands(TyperGroup):
    """The top level, which knows that `redkiln push` is `redkiln datasets push`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command; if only a group has one of this name, name that group."""
        name = args[0] if args else ""
        owners = [
            group.name for group in self.commands.values() if name in getattr(group, "commands", ())
        ]
        if name not in self.commands and owners:
            choices = " or ".join(f"`redkiln {owner} {name}`" for owner in owners)
            ctx.fail(f"No such command '{name}'. Did you mean {choices}?")
        return super().resolve_command(ctx, args)


def build_app() -> typer.Typer:
    """Build the whole command."""
    app = typer.Typer(
        name="redkiln",
        cls=_Commands,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_show_locals=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=_EPILOG,
    )
    app.callback()(_root)
    for group in (
        train, run, init, jobs, steering, records, preview, artifacts, predict, verify, export,
        registry, compare, datasets, tasks, workers, gpus, doctor, bench, keys, audit, notices,
        storage, open_page,
    ):  # fmt: skip
        group.register(app)
    command(app, "version", rich_help_panel="Service")(version)
    return app


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"redkiln {__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    url: Url = None,
    key: Key = None,
    json_output: Json = False,
    _is_version: Annotated[
        bool,
        typer.Option("--version", help="Print the version of this command.", is_eager=True,
                     callback=_print_version),
    ] = False,
) -> None:  # fmt: skip
    """Train models on AMD GPUs and get verified ONNX back.

    Every command accepts --json for use in scripts, and --url and --key to
    talk to a service that is not on this machine.
    """
    context.obj = {"url": url, "key": key, "json_output": json_output}


def version(session: Session) -> None:
    """Print the version of this command and of the service, if it can be reached."""
    try:
        health = session.client.health()
    except RedkilnError as error:
        service: dict[str, object] = {"url": session.client.url, "error": str(error)}
    else:
        service = {"url": session.client.url, **health}
    if session.is_json:
        session.emit({"version": __version__, "service": service})
        return
    session.say(f"redkiln {__version__}")
    state = "not reached" if "error" in service else service.get("version", "reached")
    session.say(f"service {service['url']} {state}")
