"""Commands on API keys: list, show, create, rotate, revoke. They need an admin key."""

from enum import StrEnum
from typing import Annotated

import typer
from rich.text import Text

from redkiln.cli.command import Session, command, default_command, example_text
from redkiln.cli.problems import UsageError
from redkiln.cli.view import words
from redkiln.cli.view.render import Column, print_table
from redkiln.views.access.key import KeyView


class Scope(StrEnum):
    """What a key may do."""

    USER = "user"
    SCRIPTS = "scripts"
    WORKER = "worker"
    ADMIN = "admin"


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    group = typer.Typer(
        rich_markup_mode="rich",
        help="List, create and revoke API keys (needs an admin key).",
        epilog=example_text((
            "redkiln keys",
            "redkiln keys create anna",
            "redkiln keys create ben --project flowers",
            "redkiln keys create gpu-box --scope worker",
            "redkiln keys rotate anna",
            "redkiln keys revoke anna",
        )),
    )  # fmt: skip
    app.add_typer(group, name="keys", rich_help_panel="Service")
    default_command(group)(list_keys)
    command(group, "show", examples=("redkiln keys show", "redkiln keys show anna"))(show)
    command(group, "create", examples=("redkiln keys create anna --scope user",))(create)
    command(group, "signing", examples=("redkiln keys signing",))(signing)
    command(group, "rotate", examples=("redkiln keys rotate anna",))(rotate)
    command(group, "revoke", examples=("redkiln keys revoke anna",))(revoke)


def list_keys(session: Session) -> None:
    """List API keys, without their secrets."""
    _print_keys(session, session.client.keys())


def show(
    session: Session,
    key_name: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Id or name.", show_default=False)
    ] = None,
) -> None:
    """Print the key that this command uses, or show another key without its secret.

    On the service's own machine, or in its container, the key that this command
    uses is the admin key.
    """
    if key_name is None:
        _print_own_key(session)
        return
    found = _find_key(session, key_name)
    if session.is_json:
        session.emit(found)
    else:
        _print_keys(session, [found])


def create(
    session: Session,
    name: Annotated[
        str, typer.Argument(help="The person or machine that the key is for.", show_default=False)
    ],
    scope: Annotated[Scope, typer.Option("--scope", help="What the key may do.")] = Scope.USER,
    project: Annotated[
        str,
        typer.Option(
            "--project",
            help="Project that the key belongs to; only an admin key sees other projects' things "
            "(default: `default`).",
            show_default=False,
        ),
    ] = "default",
) -> None:
    """Create an API key and print it, once.

    Only the secret goes to stdout, so that it can be redirected into a file.
    """
    created = session.client.create_key(name, scope.value, project=project)
    if session.is_json:
        session.emit(created)
        return
    session.note(f"{created.scope} key {created.name} ({created.id}), shown only once:")
    session.say(created.secret)


def signing(session: Session) -> None:
    """Print the public key with which the service signs files; it may be shared.

    `redkiln verify JOB --signed-by KEY` checks a model against it.
    """
    key = session.client.signing_key()
    if session.is_json:
        session.emit(key)
        return
    session.note(f"ed25519 key {key.key_id}:")
    session.say(key.public_key)


def revoke(
    session: Session, key_name: Annotated[str, typer.Argument(metavar="KEY", help="Id or name.")]
) -> None:
    """Revoke an API key; it stops working at once."""
    found = _find_key(session, key_name)
    session.client.revoke_key(found.id)
    if session.is_json:
        session.emit({"revoked": found.id})
    else:
        session.say(f"revoked {found.name} ({found.id})")


def rotate(
    session: Session, key_name: Annotated[str, typer.Argument(metavar="KEY", help="Id or name.")]
) -> None:
    """Replace a key by a new one of the same name, scope and project, and print the new one, once.

    The old key stops working at once. Only the secret goes to stdout.
    """
    created = session.client.rotate_key(_find_key(session, key_name).id)
    if session.is_json:
        session.emit(created)
        return
    session.note(f"{created.scope} key {created.name} ({created.id}), shown only once:")
    session.say(created.secret)


def _print_own_key(session: Session) -> None:
    if session.own_key is None:
        raise UsageError(
            "This command has no key. Give one with --key, REDKILN_KEY or REDKILN_KEY_FILE, or "
            "list the service's keys: redkiln keys"
        )
    if session.is_json:
        session.emit({"secret": session.own_key})
    else:
        session.say(session.own_key)


def _find_key(session: Session, named: str) -> KeyView:
    keys = session.client.keys()
    same_name = [key for key in keys if key.name == named and key.revoked_at is None]
    for key in keys:
        if key.id == named:
            return key
    if len(same_name) == 1:
        return same_name[0]
    if same_name:
        raise UsageError(
            f"{len(same_name)} keys are named {named!r}. Give an id, as listed by: redkiln keys"
        )
    raise UsageError(f"There is no key {named!r}. List them: redkiln keys")


def _print_keys(session: Session, listed: list[KeyView]) -> None:
    if session.is_json:
        session.emit(listed)
        return
    columns = (
        Column("name", when_narrow="cut"),
        Column("scope"),
        Column("project"),
        Column("created"),
        Column("revoked"),
        Column("id"),
    )
    rows = [
        (
            Text(key.name, style="bold"),
            key.scope,
            key.project,
            words.ago(key.created_at),
            Text(words.ago(key.revoked_at) if key.revoked_at else "", style="red"),
            Text(key.id, style="dim"),
        )
        for key in listed
    ]
    print_table(session.out, columns, rows)
