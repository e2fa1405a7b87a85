"""Decides which stored bytes are still needed.

Bytes are stored by digest and may be shared, so code that drops a reference does not delete the
blob: it calls `discard`, and housekeeping's `collect` deletes blobs without any reference. An
upload holds its blob from before the first byte until its holder ends.
"""

import time
from collections.abc import Iterable
from functools import partial

import sqlalchemy as sa
from sqlmodel import Session, col, delete, select

from service.artifacts.models import Artifact
from service.attempts.models import Checkpoint
from service.blobs.models import BlobHold, DiscardedBlob
from service.bundles.models import Bundle
from service.database import Database, read_now
from service.datasets.models import Dataset
from service.storage import Storage


def hold(session: Session, sha256: str, *, holder: str, is_sent: bool = False) -> None:
    """Keep a blob, stored or about to be stored or just sent by its holder, until `release`."""
    known = session.get(BlobHold, (sha256, holder))
    if known is None:
        row = BlobHold(sha256=sha256, holder=holder, at=read_now(session), is_sent=is_sent)
        session.add(row)
    elif is_sent:
        known.is_sent = True


def is_own(session: Session, sha256: str, *, attempt_id: str, job_id: str) -> bool:
    """Return whether an attempt has sent these bytes, or its job has published them before.

    A digest alone gives no right to a blob: others have stored it too, and publishing it would
    show its bytes.
    """
    held = session.get(BlobHold, (sha256, attempt_id))
    if held is not None and held.is_sent:
        return True
    of_job = sa.union_all(
        sa.select(sa.literal(1)).where(
            col(Artifact.sha256) == sha256, col(Artifact.job_id) == job_id
        ),
        sa.select(sa.literal(1)).where(
            col(Checkpoint.sha256) == sha256, col(Checkpoint.job_id) == job_id
        ),
    ).limit(1)
    return session.execute(of_job).first() is not None


def release(session: Session, *, holder: str) -> None:
    """End all holds of a holder; blobs that nothing else needs will be deleted."""
    held = session.exec(select(BlobHold.sha256).where(BlobHold.holder == holder)).all()
    session.exec(delete(BlobHold).where(col(BlobHold.holder) == holder))
    discard(session, held)


def discard(session: Session, sha256s: Iterable[str]) -> None:
    """Record that these blobs lost a reference."""
    for sha256 in set(sha256s):
        if session.get(DiscardedBlob, sha256) is None:
            session.add(DiscardedBlob(sha256=sha256, at=read_now(session)))
            session.flush()


def is_referenced(session: Session, sha256: str) -> bool:
    """Return whether anything refers to the blob."""
    references = sa.union_all(
        sa.select(sa.literal(1)).where(col(BlobHold.sha256) == sha256),
        sa.select(sa.literal(1)).where(col(Artifact.sha256) == sha256),
        sa.select(sa.literal(1)).where(col(Checkpoint.sha256) == sha256),
        sa.select(sa.literal(1)).where(col(Bundle.sha256) == sha256),
        sa.select(sa.literal(1)).where(
            sa.or_(col(Dataset.sha256) == sha256, col(Dataset.index_sha256) == sha256),
            col(Dataset.deleted_at).is_(None),
        ),
    ).limit(1)
    return session.execute(references).first() is not None


def collect(database: Database, storage: Storage, *, limit: int = 100) -> int:
    """Delete discarded blobs that nothing refers to.

    Check and deletion share a writing transaction, so that no reference can appear in between. A
    crash in between leaves the row, and the next round tries again.

    Returns:
        The number of discarded blobs that were checked.
    """
    sha256s = database.read(lambda s: s.exec(select(DiscardedBlob.sha256).limit(limit)).all())
    for sha256 in sha256s:
        database.write(partial(_collect_one, storage=storage, sha256=sha256))
    return len(sha256s)


def _collect_one(session: Session, *, storage: Storage, sha256: str) -> None:
    if not is_referenced(session, sha256):
        storage.delete(sha256)
    session.exec(delete(DiscardedBlob).where(col(DiscardedBlob.sha256) == sha256))


def sweep(database: Database, storage: Storage, *, older_than_seconds: float) -> None:
    """Discard old blobs without any reference, left by a crash between storing and recording."""
    oldest = time.time() - older_than_seconds
    for blob in storage.list_blobs():
        if blob.modified_at < oldest:
            is_needed = database.read(partial(is_referenced, sha256=blob.sha256))
            if not is_needed:
                database.write(partial(discard, sha256s=[blob.sha256]))
