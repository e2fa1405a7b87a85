"""Writes the audit log: an entry is part of the transaction that makes the change.

`AuditMiddleware` opens a record for each request that may change something, the check of the
caller names who it is, and the database calls `record_change` at the end of each transaction.
Rules that create something, or change several things, name them with `note_object`.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session

from service.audit.models import AuditEntry
from service.database import read_now
from service.ids import new_id
from service.keys.caller import Caller
from service.keys.models import ApiKey

DONE = "done"
MOST_CHARS = 300
"""Longest object that an entry keeps; a caller chooses the words of a path."""
_OBJECT = "audit_object"


@dataclass
class Record:
    """A request that may change something.

    Attributes:
        scope: The request's ASGI scope, which names its route once it is found.
        caller: Sender; None until it is known.
        is_written: Whether an entry has been committed.
    """

    scope: Mapping[str, Any]
    caller: Caller | None = None
    is_written: bool = False


current: ContextVar[Record | None] = ContextVar("audit_record", default=None)


def note_caller(caller: Caller) -> None:
    """Name who sends the present request."""
    record = current.get()
    if record is not None:
        record.caller = caller


def note_object(session: Session, name: str) -> None:
    """Name what a transaction creates or changes; without this, it is what the path names."""
    session.info[_OBJECT] = name


def record_change(session: Session) -> None:
    """Add an entry to a transaction, unless the request has one and nothing more is named."""
    record = current.get()
    if record is None or record.caller is None:
        return
    named = session.info.get(_OBJECT)
    if named is not None or not record.is_written:
        add_entry(session, record, record.caller, outcome=DONE, named=named)


def confirm_change() -> None:
    """Note that the transaction of a change was committed."""
    record = current.get()
    if record is not None and record.caller is not None:
        record.is_written = True


def add_entry(
    session: Session, record: Record, caller: Caller, *, outcome: str, named: str | None = None
) -> None:
    """Add an entry to the log."""
    scope = record.scope
    key = session.get(ApiKey, caller.id)
    path = getattr(scope.get("route"), "path", scope["path"])
    client = scope.get("client") or ("",)
    values = scope.get("path_params", {}).values()
    session.add(
        AuditEntry(
            id=new_id("aud"),
            at=read_now(session),
            key_id=caller.id,
            key_name="" if key is None else key.name,
            project=caller.project,
            action=f"{scope['method']} {path}",
            object=(named or "/".join(str(value) for value in values))[:MOST_CHARS],
            outcome=outcome,
            address=str(client[0]),
        )
    )
