"""Keeps code bundles for as long as a job may run them."""

from datetime import timedelta

from sqlmodel import Session, col, delete, select

from redkiln.views.artifact import BundleView
from service.blobs.rules import discard
from service.bundles.models import Bundle
from service.database import read_now
from service.errors import NotFound, Unavailable
from service.jobs.models import Job
from service.storage import Storage, Stored


def add_bundle(session: Session, storage: Storage, stored: Stored) -> Bundle:
    """Return the bundle of stored bytes, creating it if needed.

    Raises:
        Unavailable: The bytes were deleted in the meantime.
    """
    known = session.get(Bundle, stored.sha256)
    if known is not None:
        return _touch(session, known)
    if storage.stat(stored.sha256) is None:
        # Housekeeping deleted equal, unreferenced bytes between the upload and this transaction.
        raise Unavailable("the upload was deleted before it was registered; send it again")
    now = read_now(session)
    bundle = Bundle(sha256=stored.sha256, size_bytes=stored.size_bytes, created_at=now, used_at=now)
    session.add(bundle)
    return bundle


def use_bundle(session: Session, sha256: str) -> Bundle:
    """Return a bundle and extend how long it is kept.

    Raises:
        NotFound: No bundle has this digest.
    """
    bundle = session.get(Bundle, sha256)
    if bundle is None:
        raise NotFound(f"there is no code bundle {sha256}; upload it: PUT /v1/bundles/{sha256}")
    return _touch(session, bundle)


def forget_bundles(session: Session, *, older_than_seconds: float, limit: int = 100) -> int:
    """Delete old bundles that no job names; return their number."""
    oldest = read_now(session) - timedelta(seconds=older_than_seconds)
    named = select(Job.id).where(Job.bundle_sha256 == Bundle.sha256).exists()
    sha256s = session.exec(
        select(Bundle.sha256).where(col(Bundle.used_at) < oldest, ~named).limit(limit)
    ).all()
    session.exec(delete(Bundle).where(col(Bundle.sha256).in_(sha256s)))
    discard(session, sha256s)
    return len(sha256s)


def bundle_view(bundle: Bundle) -> BundleView:
    """Return a bundle as the API shows it."""
    return BundleView(
        sha256=bundle.sha256, size_bytes=bundle.size_bytes, created_at=bundle.created_at
    )


def _touch(session: Session, bundle: Bundle) -> Bundle:
    bundle.used_at = read_now(session)
    session.add(bundle)
    return bundle
