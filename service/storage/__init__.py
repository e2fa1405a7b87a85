"""Storage of bytes by sha256 (put, open, stat, delete), in a local folder or an S3 store."""

from obstore.store import from_url

from service.settings import Settings
from service.storage.local import LocalStorage
from service.storage.objects import ObjectStorage
from service.storage.seam import CHUNK_BYTES, ListedBlob, Storage, Stored, disk_errors
from service.storage.staged import require_free

__all__ = [
    "CHUNK_BYTES",
    "ListedBlob",
    "LocalStorage",
    "ObjectStorage",
    "Storage",
    "Stored",
    "build_storage",
    "disk_errors",
    "require_free",
]


def build_storage(settings: Settings) -> Storage:
    """Build the configured storage."""
    staging_dir = settings.state_dir / "staging"
    if settings.storage_url is not None:
        store = from_url(settings.storage_url)
        return ObjectStorage(store, staging_dir, min_free_bytes=settings.min_free_bytes)
    return LocalStorage(
        settings.state_dir / "blobs", staging_dir, min_free_bytes=settings.min_free_bytes
    )
