"""Code bundles: the code of a folder, stored by the service under its digest."""

from collections.abc import Iterator
from pathlib import Path

from redkiln.client.connection import Connection
from redkiln.client.packing import Package, open_file
from redkiln.client.requests import Requests
from redkiln.client.transfer import OnBytes
from redkiln.client.watching import Outage
from redkiln.errors import ConnectionFailed, NotFound

READ_SECONDS = 600.0
"""Longest wait for the answer to an upload, which comes once all of it is on the service's disk."""
PATIENCE_SECONDS = 120.0
"""For how long an interrupted upload is started again."""


class Bundles(Requests):
    """Client methods for uploaded files: code bundles and ONNX files."""

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
        return self._push_file("bundles", package, on_bytes)

    def push_model(self, path: str | Path, *, on_bytes: OnBytes | None = None) -> str:
        """Upload an ONNX file to train, unless the service already has it.

        Args:
            path: The file, with its weights inside.
            on_bytes: Called with the number of bytes sent.

        Returns:
            Its sha256, which a spec names as `model.file` with `model.source: onnx`.

        Raises:
            Rejected: The file cannot be trained; the message says why.
            PackingError: The file does not exist or is empty.
        """
        return self._push_file("models", open_file(Path(path)), on_bytes)

    def _push_file(self, kind: str, package: Package, on_bytes: OnBytes | None) -> str:
        sha256 = package.digest()
        outage = Outage(patience_seconds=PATIENCE_SECONDS)
        while not _has_file(self._connection, kind, sha256):
            try:
                self._connection.request(
                    "PUT",
                    f"/v1/{kind}/{sha256}",
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


def _has_file(connection: Connection, kind: str, sha256: str) -> bool:
    try:
        connection.request("GET", f"/v1/{kind}/{sha256}")
    except NotFound:
        return False
    return True


def _reported(package: Package, on_bytes: OnBytes | None) -> Iterator[bytes]:
    for chunk in package.chunks():
        yield chunk
        if on_bytes:
            on_bytes(len(chunk))
