"""Begins uploads in parts, receives their parts, and makes them data sets."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from sqlmodel import Session, col, delete, select

from redkiln.tables import TableOptions
from redkiln.views.dataset import UploadView
from service.audit.record import note_object
from service.database import read_now
from service.datasets.models import Dataset
from service.datasets.rules import dataset_view, register_archive
from service.errors import BadRequest, Conflict, DigestMismatch, NotFound
from service.ids import new_id
from service.keys.caller import Caller
from service.projects.owners import belongs_to
from service.projects.quotas import check_stored
from service.services import Services
from service.storage import Stored, require_free
from service.turns import Turns
from service.uploads.models import Upload
from service.uploads.parts import PartFiles

_joining = Turns("uploads are being joined", at_once=4, waiting=8)


def parts_of(services: Services) -> PartFiles:
    """Return where the parts of a service's uploads are."""
    return PartFiles(services.settings.uploads_dir)


def find_stored(session: Session, stored: Stored, *, project: str | None = None) -> bool:
    """Return whether a data set of a project (None: of any) has exactly these bytes.

    Only archives of data sets count: nobody may turn another stored file into a data set by naming
    its digest.
    """
    same = select(Dataset.id).where(
        Dataset.sha256 == stored.sha256,
        Dataset.size_bytes == stored.size_bytes,
        Dataset.kind == "archive",
        belongs_to(col(Dataset.project), project),
        col(Dataset.deleted_at).is_(None),
    )
    return session.exec(same.limit(1)).first() is not None


def begin(
    services: Services,
    *,
    caller: Caller,
    name: str,
    seed: int,
    stored: Stored,
    options: TableOptions,
) -> tuple[UploadView, bool]:
    """Begin an upload, or continue the one with the same content and name.

    If a data set already has the content, it becomes the data set at once.

    Returns:
        The upload, and whether something is new: an upload or a data set.

    Raises:
        StorageFull: The disk has no room for the missing parts and the joined file.
        TooManyRequests: The project stores too much already.
    """

    def write(session: Session) -> tuple[Upload | Dataset, bool]:
        more_bytes = stored.size_bytes
        check_stored(session, services.settings, caller, more_bytes=more_bytes)
        if find_stored(session, stored, project=caller.sees):
            return register_archive(
                session,
                services.storage,
                name=name,
                seed=seed,
                stored=stored,
                options=options,
                project=caller.project,
            )
        upload = Upload(
            id=new_id("upl"),
            name=name,
            project=caller.project,
            sha256=stored.sha256,
            size_bytes=stored.size_bytes,
            part_bytes=services.settings.upload_part_bytes,
            seed=seed,
            options=options.given(),
            created_at=read_now(session),
        )
        opened = _open(session, upload)
        _require_room(services, opened[0])
        return opened

    found, is_new = services.database.write(write)
    if isinstance(found, Dataset):
        if is_new:
            services.validator.submit(found)
        return _view_of_dataset(found, services), is_new
    parts_of(services).begin(found.id)
    return view(found, services), is_new


def get(session: Session, upload_id: str) -> Upload:
    """Return an upload that has not ended.

    Raises:
        NotFound: There is no such upload; it was finished, cancelled, or has expired.
    """
    upload = session.get(Upload, upload_id)
    if upload is None:
        raise NotFound(
            f"there is no upload {upload_id!r}: it was finished, cancelled, or has expired; begin "
            "again with POST /v1/uploads"
        )
    return upload


def put_part(
    services: Services, upload: Upload, number: int, content: bytes, *, sha256: str
) -> None:
    """Store a part.

    Raises:
        BadRequest: The upload has no such part, or the part has another size.
        DigestMismatch: The content has another digest.
    """
    if number >= upload.num_parts:
        raise BadRequest(f"the last part of this upload is {upload.num_parts - 1}, not {number}")
    expected = upload.bytes_of(number)
    if len(content) != expected:
        raise BadRequest(f"part {number} has {len(content)} bytes; it must have {expected}")
    try:
        parts_of(services).put(upload.id, number, content, sha256=sha256)
    except FileNotFoundError:
        raise NotFound(
            f"upload {upload.id} has just ended; begin again with POST /v1/uploads"
        ) from None


def finish(services: Services, upload: Upload) -> tuple[Dataset, bool]:
    """Make an upload a data set; return the set and whether it is new.

    Raises:
        Conflict: Parts are missing; the error lists them.
        DigestMismatch: The parts together have another digest than announced.
        NotFound: The upload has ended.
        Unavailable: Another request joins the parts, or too many others are being joined.
    """
    try:
        with parts_of(services).lock(upload.id):
            services.database.read(lambda session: get(session, upload.id))
            with _joining.take():
                return _make_dataset(services, upload)
    except FileNotFoundError:
        raise NotFound(
            f"upload {upload.id} has just ended; begin again with POST /v1/uploads"
        ) from None


def _make_dataset(services: Services, upload: Upload) -> tuple[Dataset, bool]:
    parts = parts_of(services)
    received = set(parts.list_received(upload.id))
    missing = [number for number in range(upload.num_parts) if number not in received]
    if missing:
        message = (
            f"{len(missing)} of {upload.num_parts} parts are missing, the first is {missing[0]}"
        )
        raise Conflict(message, code="parts_missing", missing=missing)
    stored = _join(services, upload)

    def write(session: Session) -> tuple[Dataset, bool]:
        _delete_row(session, upload_id=upload.id)
        options = TableOptions.model_validate(upload.options)
        return register_archive(
            session,
            services.storage,
            name=upload.name,
            seed=upload.seed,
            stored=stored,
            options=options,
            project=upload.project,
        )

    dataset, is_new = services.database.write(write)
    parts.remove(upload.id)
    if is_new:
        services.validator.submit(dataset)
    return dataset, is_new


def _join(services: Services, upload: Upload) -> Stored:
    try:
        return services.storage.put(parts_of(services).read(upload.id), sha256=upload.sha256)
    except DigestMismatch:
        # Each part is as it was sent, so the file has changed meanwhile: none can be used again.
        cancel(services, upload.id)
        raise


def cancel(services: Services, upload_id: str) -> None:
    """Forget an upload and delete its parts.

    Raises:
        NotFound: There is no such upload.
    """
    services.database.write(lambda session: session.delete(get(session, upload_id)))
    parts_of(services).remove(upload_id)


def forget_expired(services: Services) -> int:
    """Delete uploads that no part has arrived for; return their number."""
    parts, seconds = parts_of(services), services.settings.upload_hours * 3600

    def list_rows(session: Session) -> Sequence[str]:
        oldest = read_now(session) - timedelta(seconds=seconds)
        return session.exec(select(Upload.id).where(col(Upload.created_at) < oldest)).all()

    rows = services.database.read(list_rows)
    old = {*parts.list_old(older_than_seconds=seconds)}
    old |= {id_ for id_ in rows if parts.used_at(id_) is None}
    for upload_id in old:
        services.database.write(partial(_delete_row, upload_id=upload_id))
        parts.remove(upload_id)
    return len(old)


def _delete_row(session: Session, *, upload_id: str) -> None:
    session.exec(delete(Upload).where(col(Upload.id) == upload_id))


def view(upload: Upload, services: Services) -> UploadView:
    """Return an upload as the API shows it."""
    parts = parts_of(services)
    used_at = parts.used_at(upload.id)
    last = upload.created_at if used_at is None else datetime.fromtimestamp(used_at, UTC)
    return UploadView(
        id=upload.id,
        sha256=upload.sha256,
        size_bytes=upload.size_bytes,
        part_bytes=upload.part_bytes,
        num_parts=upload.num_parts,
        received=parts.list_received(upload.id),
        expires_at=last + timedelta(hours=services.settings.upload_hours),
    )


def _view_of_dataset(dataset: Dataset, services: Services) -> UploadView:
    return UploadView(
        sha256=dataset.sha256 or "",
        size_bytes=dataset.size_bytes or 0,
        part_bytes=services.settings.upload_part_bytes,
        num_parts=0,
        dataset=dataset_view(dataset),
    )


_SAME = ("sha256", "size_bytes", "name", "project", "seed", "part_bytes")
"""Columns that a continued upload has in common; a larger part than before would be refused."""


def _open(session: Session, upload: Upload) -> tuple[Upload, bool]:
    same = [getattr(Upload, column) == getattr(upload, column) for column in _SAME]
    rows = session.exec(select(Upload).where(*same))
    known = next((row for row in rows if row.options == upload.options), None)
    if known is not None:
        return known, False
    session.add(upload)
    note_object(session, upload.id)
    return upload, True


def _require_room(services: Services, upload: Upload) -> None:
    """Check the room for the missing parts, and for the file that is joined while they exist."""
    settings = services.settings
    received = sum(map(upload.bytes_of, parts_of(services).list_received(upload.id)))
    needed = 2 * upload.size_bytes - received
    require_free(settings.uploads_dir, needed + settings.min_free_bytes)
