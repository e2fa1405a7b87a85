"""Signs the digests of published files with the installation's key."""

import hashlib
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from redkiln.views.models.signature import Signature, SigningKey, signed_bytes
from service.keys.first import create_private


class Signer:
    """The installation's signing key.

    Args:
        private: The 32 bytes of an Ed25519 key.
    """

    def __init__(self, private: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(private)
        public = self._private.public_key().public_bytes_raw()
        self.key = SigningKey(
            key_id=hashlib.sha256(public).hexdigest()[:16], public_key=public.hex()
        )

    def sign(self, *, kind: str, job_id: str, sha256: str) -> Signature:
        """Return the signature of a job's file with this digest."""
        made = self._private.sign(signed_bytes(kind=kind, job_id=job_id, sha256=sha256))
        return Signature(
            **self.key.model_dump(),
            kind=kind,
            job_id=job_id,
            sha256=sha256,
            signature=made.hex(),
        )


def load_signer(path: Path) -> Signer:
    """Return the signer with the key in a file, made at the first start with mode 0600.

    Raises:
        ValueError: The file does not contain a key.
        OSError: The file cannot be read or created.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    create_private(path, f"{Ed25519PrivateKey.generate().private_bytes_raw().hex()}\n")
    try:
        return Signer(bytes.fromhex(path.read_text().strip()))
    except ValueError as error:
        raise ValueError(
            f"{path} does not contain a signing key; restore it from a backup, or delete it to get "
            "a new key, which then signs all files"
        ) from error
