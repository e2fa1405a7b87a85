"""Checks who signed `manifest.json`, and with it the digests of all files that it lists."""

import hashlib
from pathlib import Path

from pydantic import ValidationError

from redkiln.errors import ModelError
from redkiln.predict.description import MANIFEST, read_manifest
from redkiln.views.models.signature import SUFFIX, Signature, SigningKey, signed_bytes


def read_signer(folder: Path) -> SigningKey | None:
    """Return the key that signed the manifest in a folder; None without a signature.

    Raises:
        ModelError: The signature is damaged, of other bytes than the manifest's, or of a file that
            is not the manifest of its job's export.
    """
    path = folder / f"{MANIFEST}{SUFFIX}"
    if not path.is_file() or not (folder / MANIFEST).is_file():
        return None
    try:
        found = Signature.model_validate_json(path.read_bytes())
        is_right = _is_right(found, (folder / MANIFEST).read_bytes())
    except (ValidationError, ValueError, OSError) as error:
        raise ModelError(f"{path} is not a signature ({error}). Download it again.") from error
    if not is_right:
        raise ModelError(
            f"{folder / MANIFEST} is not the file that was signed: it was changed, or {path.name} "
            "belongs to another job. Download both again."
        )
    _check_origin(found, folder)
    return SigningKey(**found.model_dump(include=set(SigningKey.model_fields)))


def _check_origin(found: Signature, folder: Path) -> None:
    """Refuse the signed file of a script, which can have any content, such as a verdict.

    Raises:
        ModelError: The file is not the manifest of its job's export.
    """
    job_id = read_manifest(folder).get("job", {}).get("id", found.job_id)
    if (found.kind, job_id) != ("manifest", found.job_id):
        raise ModelError(
            f"{folder / MANIFEST} was not written by an export: it is signed as a file of the kind "
            f"{found.kind!r} of {found.job_id}. Do not trust what it says of the model."
        )


def find_miss(signer: SigningKey | None, *, wanted: str) -> str | None:
    """Return why the manifest is not signed by a key; None if it is.

    Args:
        signer: Key that signed it.
        wanted: The public key that should have signed it, or its id.
    """
    if signer is None:
        return f"{MANIFEST} is not signed, but --signed-by asks for {wanted}"
    if wanted.lower() in (signer.key_id, signer.public_key):
        return None
    return f"{MANIFEST} is signed by {signer.key_id}, not by {wanted}"


def _is_right(found: Signature, content: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    public = bytes.fromhex(found.public_key)
    digest = hashlib.sha256(content).hexdigest()
    if hashlib.sha256(public).hexdigest()[:16] != found.key_id or digest != found.sha256:
        return False
    try:
        message = signed_bytes(kind=found.kind, job_id=found.job_id, sha256=digest)
        key = Ed25519PublicKey.from_public_bytes(public)
        key.verify(bytes.fromhex(found.signature), message)
    except InvalidSignature:
        return False
    return True
