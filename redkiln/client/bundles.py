"""Code bundles: the code of a folder, stored by the service under its digest."""

from collections.abc import Iterator

from redkiln.client.connection import Connection
from redkiln.client.packing import Package
from redkiln.client.requests import Requests
from redkiln.client.transfer import OnBytes
from redkiln.client.watching import Outage
from redkiln.errors import ConnectionFailed, NotFound

READ_SECONDS = 600.0
"""Longest wait for the answer to an upload, which comes once all of it is on the service's disk."""
PATIENCE_SECONDS = 120.0
"""For how long an interrupted upload is started again."""


class Bundles(Requests):
    """Client methods for code bundles."""

    def push_bundle(self, package: Package, *, on_bytes: OnBytes | None = None) -> str:
        """Upload a bundle, unless the service already has it, which takes one small request.

        Args:
            package: Package of `redkiln.client.bundle.open_bundle`.
            on_bytes: Called with the number of bytes sent.

        Returns:
            Its sha256, which a spec names as `script.bundle`.

        Raises:
            NotAuthorized: The key may not run scripts.
            PackingError: A file changed while it was read.
        """
        sha256 = package.digest()
        outage = Outage(patience_seconds=PATIENCE_SECONDS)
        while not _has_bundle(self._connection, sha256):
            try:
                self._connection.request(
                    "PUT",
                    f"/v1/bundles/{sha256}",
                    content=_reported(package, on_bytes),
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


def _reported(package: Package, on_bytes: OnBytes | None) -> Iterator[bytes]:
    for chunk in package.chunks():
        yield chunk
        if on_bytes:
            on_bytes(len(chunk))
