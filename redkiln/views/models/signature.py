"""Signatures of published files, and the key that makes them."""

from typing import Literal

from pydantic import BaseModel

SUFFIX = ".sig"
"""Ending of the file with a signature, next to the signed one."""


class SigningKey(BaseModel):
    """The public key of an installation.

    Attributes:
        key_id: First 16 hexadecimal digits of the key's sha256.
        public_key: The key's 32 bytes, hexadecimal.
    """

    algorithm: Literal["ed25519"] = "ed25519"
    key_id: str
    public_key: str


class Signature(SigningKey):
    """A signature of a file.

    Attributes:
        kind: Kind of the artifact. Scripts choose the names and contents of their files, but not
            their kind: only an export publishes a `manifest`.
        job_id: Job that published it.
        sha256: Digest of the file.
        signature: Signature of `signed_bytes`, hexadecimal.
    """

    kind: str
    job_id: str
    sha256: str
    signature: str


def signed_bytes(*, kind: str, job_id: str, sha256: str) -> bytes:
    """Return what is signed for a file, with a word so that it means nothing else."""
    return f"redkiln-artifact-v2:{kind}:{job_id}:{sha256}".encode()
