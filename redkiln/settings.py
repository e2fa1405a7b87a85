"""The service's address and key, from arguments, the environment or the checkout."""

import ipaddress
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

DEFAULT_URL = "http://127.0.0.1:8321"
ADMIN_KEY_FILE = Path("data") / "keys" / "admin.key"


@dataclass(frozen=True)
class ClientSettings:
    """Address of the service, without a trailing slash, and the key, if there is one."""

    url: str
    key: str | None = field(default=None, repr=False)


def resolve_settings(
    url: str | None,
    key: str | None,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> ClientSettings:
    """Return settings from arguments, else `REDKILN_URL`, `REDKILN_KEY`, `REDKILN_KEY_FILE`.

    If none gives a key, the admin key of a service that runs from a checkout is used
    (`data/keys/admin.key` in this folder or one above it), but only for a service on this machine:
    the key must not be sent to anyone else.

    Raises:
        ValueError: The URL is not http(s).
        OSError: The file named by `REDKILN_KEY_FILE` cannot be read.
    """
    environment = os.environ if environment is None else environment
    address = (url or environment.get("REDKILN_URL") or DEFAULT_URL).rstrip("/")
    if "://" not in address:
        address = f"http://{address}"
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{address!r} is not an http:// or https:// address")
    secret = key or environment.get("REDKILN_KEY")
    if not secret and (key_file := environment.get("REDKILN_KEY_FILE")):
        secret = Path(key_file).expanduser().read_text().strip()
    if not secret and is_this_machine(parts.hostname):
        secret = _find_admin_key(folder or Path.cwd())
    return ClientSettings(url=address, key=secret or None)


def is_this_machine(host: str) -> bool:
    """Return whether a host name or address belongs to this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        if ipaddress.ip_address(host).is_loopback:
            return True
    except ValueError:
        pass  # a host name, which is looked up below
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(address)  # only a local address can be bound
    except OSError:
        return False
    return True


def _find_admin_key(folder: Path) -> str | None:
    for parent in (folder, *folder.parents):
        try:
            return (parent / ADMIN_KEY_FILE).read_text().strip()
        except OSError:
            continue
    return None
