"""Code bundles: a folder's code at the service, by its digest."""

from collections.abc import Iterator

from redkiln.client.requests import Requests
from redkiln.connection import Connection
from redkiln.errors import ConnectionFailed, NotFound
from redkiln.packing import Package
from redkiln.transfer import OnBytes
from redkiln.watching import Outage

READ_SECONDS = 600.0
"""The service answers when all of it is on its disk."""
PATIENCE_SECONDS = 120.0
"""How long an upload that breaks off is begun again."""


class Bundles(Requests):
    """The methods of a client that are about code bundles."""

    def push_bundle(self, package: Package, *, on_bytes: OnBytes | None = None) -> str:
        """Have the service hold a bundle; one that it has costs one small request.

        Args:
            package: of `redkiln.bundle.open_bundle`.
            on_bytes: told of bytes that are sent.

        Returns:
            its sha256, which a spec names as `script.bundle`.

        Raises:
            NotAuthorized: the key may not run scripts.
            PackingError: a file changed while it was read.
        """
        sha256 = package.digest()
        outage = Outage(patience_seconds=PATIENCE_SECONDS)
        while not _has_bundle(self._connection, sha256):
            try:
                self._connection.request(
                    "PUT",
                    f"/v1/bundles/{sha256}",
                    content=_told(package, on_bytes),
                    headers={
                        "Content-Type": package.media_type,
                        "Content-Length": str(package.size_bytes),
                    },
                    repeatable=False,
                    read_seconds=READ_SECONDS,
                )
                break
            except ConnectionFailed as error:
                outage.note(error)
                outage.wait()
        return sha256


def _has_bundle(connection: Connection, sha256: str) -> bool:
    try:
        connection.request("GET", f"/v1/bundles/{sha256}")
    except NotFound:
        return False
    return True


def _told(package: Package, on_bytes: OnBytes | None) -> Iterator[bytes]:
    for chunk in package.chunks():
        yield chunk
        if on_bytes:
            on_bytes(len(chunk))
