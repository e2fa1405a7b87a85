"""What all commands share: `--url`, `--key`, `--json`, and errors as exit statuses."""

import functools
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.text import Text
from typer.core import TyperCommand

from redkiln.cli.exit_codes import ExitCode, exit_code_of_error
from redkiln.cli.problems import Locate, error_document, print_error
from redkiln.cli.view.terminal import SafeConsole, print_line
from redkiln.client import Client
from redkiln.errors import RedkilnError
from redkiln.settings import resolve_settings
from redkiln.spec.problems import plain_message

PIPE_WIDTH = 200
"""Width of the output in columns where it is not a terminal, so that nothing is cut."""

_USAGE_ERRORS: Any = typer.BadParameter.__bases__
"""The class of all errors in a command line; typer exports it only as this base."""

P = ParamSpec("P")

Url = Annotated[
    str | None,
    typer.Option("--url", help="Address of the service.", show_default=False, metavar="URL"),
]
Key = Annotated[
    str | None, typer.Option("--key", help="API key.", show_default=False, metavar="KEY")
]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")]

_C1 = re.compile("[\x7f-\x9f]")
_SHARED = {"url": (Url, None), "key": (Key, None), "json_output": (Json, False)}


class Session:
    """One run of a command: its output streams and its service.

    Attributes:
        is_json: Whether stdout is JSON for a program.
        out: Console for results that people read (stdout).
        notes: Console for progress and errors (stderr).
        locate: Maps the JSON pointer of an error to the place where the user wrote the value.
    """

    def __init__(self, *, url: str | None, key: str | None, is_json: bool) -> None:
        self._url = url
        self._key = key
        self.is_json = is_json
        self.out = _console(stderr=False)
        self.notes = _console(stderr=True)
        self.locate: Locate | None = None

    @cached_property
    def client(self) -> Client:
        """The client of the service, created on first use."""
        try:
            client = Client(self._url, self._key)
        except (ValueError, OSError) as error:
            raise RedkilnError(str(error)) from error
        client.warns_of_data = False  # commands print the warnings
        return client

    @property
    def own_key(self) -> str | None:
        """The key that this command sends to the service, or None."""
        try:
            return resolve_settings(self._url, self._key).key
        except (ValueError, OSError) as error:
            raise RedkilnError(str(error)) from error

    @property
    def live(self) -> Console:
        """The console for output that redraws itself: stderr if stdout is JSON."""
        return self.notes if self.is_json else self.out

    def say(self, text: str | Text, *, is_prose: bool = False) -> None:
        """Print a line of the result, without wrapping it; see `print_line` for prose."""
        print_line(self.out, text, is_prose=is_prose)

    def note(self, text: str | Text) -> None:
        """Print a sentence that is not part of the result."""
        print_line(self.notes, text, is_prose=True)

    def emit(self, value: Any) -> None:
        """Print the result as JSON."""
        print_json(value, indent=2)

    def close(self) -> None:
        """Close the client's connections, if there are any."""
        if "client" in self.__dict__:
            self.client.close()


def print_json(value: Any, *, indent: int | None = None) -> None:
    """Print models, or plain values that contain models, as one JSON document on stdout."""
    text = json.dumps(value, default=_plain, indent=indent, ensure_ascii=False)
    # JSON escapes only the controls below U+0020.
    sys.stdout.write(_C1.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n")
    sys.stdout.flush()


def command(
    app: typer.Typer, name: str, *, examples: Iterable[str] = (), **options: Any
) -> Callable[[Callable[Concatenate[Session, P], None]], Callable[..., None]]:
    """Register a function as a command; it gets a `Session` before its own parameters.

    A parameter whose type is a dataclass stands for a group of options, one for each field.

    Args:
        app: Group that the command belongs to.
        name: Name of the command.
        examples: Command lines shown in the help.
        options: Further options passed to typer.
    """

    def register(function: Callable[Concatenate[Session, P], None]) -> Callable[..., None]:
        run = _with_session(function)
        app.command(name, cls=_Command, epilog=example_text(examples), **options)(run)
        return run

    return register


class _Command(TyperCommand):
    """A command whose errors are in our own words alone: typer checks values with pydantic."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments of a command line."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = plain_message(error.message)
            raise
        except _USAGE_ERRORS as error:
            error.message += _hint_at_file(error, given)
            raise


def _hint_at_file(error: Exception, given: Iterable[str]) -> str:
    """Return how to name a file whose name was read as an unknown option."""
    option = getattr(error, "option_name", None)
    names = (name for name in given if option and name.startswith(option) and Path(name).exists())
    return next((f". If you mean the file {name}, write ./{name}" for name in names), "")


def default_command(group: typer.Typer) -> Callable[[Callable[[Session], None]], None]:
    """Register the function that runs for a group without a subcommand, also as `list`."""

    def register(function: Callable[[Session], None]) -> None:
        command(group, "list")(function)
        group.callback(invoke_without_command=True)(_with_session(function))

    return register


def example_text(lines: Iterable[str]) -> str | None:
    """Format examples as the last part of a help text."""
    listed = "\n".join(f"  {line}" for line in lines)
    return f"[bold]Examples[/bold]\n{listed}" if listed else None


def _with_session(function: Callable[Concatenate[Session, P], None]) -> Callable[..., None]:
    hints = inspect.get_annotations(function)
    groups = {name: hint for name, hint in hints.items() if _is_group(hint)}

    @functools.wraps(function)
    def run(*args: Any, **given: Any) -> None:
        context: typer.Context = given.pop("context")
        shared = context.find_root().ensure_object(dict)
        # The shared options may come before the command, in its group, or after it: the last wins.
        for name in _SHARED:
            shared[name] = given.pop(name) or shared.get(name)
        if context.invoked_subcommand is not None:
            return
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        session = Session(url=shared["url"], key=shared["key"], is_json=bool(shared["json_output"]))
        _run(session, functools.partial(function, session, *args, **given))

    _announce(run, function)
    return run


def _run(session: Session, function: Callable[[], None]) -> None:
    try:
        function()
    except RedkilnError as error:
        if session.is_json:
            session.emit(error_document(error))
        print_error(session.notes, error, locate=session.locate)
        raise typer.Exit(exit_code_of_error(error)) from error
    except KeyboardInterrupt:
        session.note("Interrupted.")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    finally:
        session.close()


def _announce(run: Callable[..., None], function: Callable[..., None]) -> None:
    """Show typer the function's own parameters and the shared ones, but not the session."""
    own = list(inspect.signature(function).parameters.values())[1:]
    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = [
        inspect.Parameter(name, keyword, default=default, annotation=annotation)
        for name, (annotation, default) in _SHARED.items()
    ]
    context = inspect.Parameter("context", keyword, annotation=typer.Context)
    expanded = [option for parameter in own for option in _options_of(parameter)]
    parameters = [*(option.replace(kind=keyword) for option in expanded), *shared, context]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del run.__wrapped__  # type: ignore[attr-defined]


def _options_of(parameter: inspect.Parameter) -> Iterable[inspect.Parameter]:
    """Return the parameter itself, or the fields of its dataclass, as options of the command."""
    if not _is_group(parameter.annotation):
        return (parameter,)
    return inspect.signature(parameter.annotation).parameters.values()


def _is_group(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return SafeConsole(stderr=stderr, width=width, highlight=False)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return str(value)
