"""Creates, lists and revokes keys."""

from collections.abc import Sequence
from typing import cast

from sqlmodel import Session, col, select

from redkiln.views.access.key import CreatedKey, KeyView
from service.audit.record import note_object
from service.database import read_now
from service.errors import Conflict, NotFound
from service.ids import new_id
from service.keys.caller import DEFAULT_PROJECT, KeyScope
from service.keys.models import ApiKey
from service.keys.secret import hash_secret, make_secret, parse_key_id


def create_key(
    session: Session, *, name: str, scope: KeyScope, project: str = DEFAULT_PROJECT
) -> CreatedKey:
    """Create a key; only the returned object has its secret."""
    secret = make_secret(new_id("key"))
    key = add_key(session, secret, name=name, scope=scope, project=project)
    note_object(session, key.id)
    return CreatedKey(**key_view(key).model_dump(), secret=secret)


def add_key(
    session: Session,
    secret: str,
    *,
    name: str,
    scope: KeyScope,
    project: str = DEFAULT_PROJECT,
) -> ApiKey:
    """Register a secret as a key; only its hash is stored."""
    key_id = parse_key_id(secret)
    if key_id is None:
        raise ValueError("the text is not a key")
    key = ApiKey(
        id=key_id,
        name=name,
        scope=scope,
        project=project,
        secret_sha256=hash_secret(secret),
        created_at=read_now(session),
    )
    session.add(key)
    return key


def list_keys(session: Session, *, after: str | None, limit: int) -> Sequence[ApiKey]:
    """Return keys, including revoked ones, newest first."""
    statement = select(ApiKey)
    if after is not None:
        statement = statement.where(ApiKey.id < after)
    return session.exec(statement.order_by(col(ApiKey.id).desc()).limit(limit)).all()


def revoke_key(session: Session, key_id: str) -> None:
    """Revoke a key; revoking it again changes nothing.

    Raises:
        NotFound: There is no such key.
    """
    key = session.get(ApiKey, key_id)
    if key is None:
        raise NotFound(f"there is no key {key_id!r}; GET /v1/keys lists them")
    if key.revoked_at is None:
        key.revoked_at = read_now(session)
        session.add(key)


def rotate_key(session: Session, key_id: str) -> CreatedKey:
    """Replace a key by a new one of the same name, scope and project; the old one is revoked.

    Raises:
        NotFound: There is no such key.
        Conflict: It is revoked already.
    """
    key = session.get(ApiKey, key_id, with_for_update=True)
    if key is None:
        raise NotFound(f"there is no key {key_id!r}; GET /v1/keys lists them")
    if key.revoked_at is not None:
        raise Conflict(f"key {key_id} is revoked; create a new one", code="key_revoked")
    revoke_key(session, key_id)
    scope = cast("KeyScope", key.scope)
    return create_key(session, name=key.name, scope=scope, project=key.project)


def key_view(key: ApiKey) -> KeyView:
    """Return a key as the API shows it."""
    return KeyView(
        id=key.id,
        name=key.name,
        scope=key.scope,
        project=key.project,
        created_at=key.created_at,
        revoked_at=key.revoked_at,
        last_used_at=key.last_used_at,
    )
