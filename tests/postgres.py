"""A real PostgreSQL in a temporary folder, and a separate database for each test."""

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tests.waiting import wait_for

SWITCH = "REDKILN_TEST_POSTGRES"
"""Variable that makes the service of the fast tests use PostgreSQL if it is `1`."""
TEMPLATE = "first"
DEBIAN = Path("/usr/lib/postgresql")
# A test needs no durability against a crash of the machine.
FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "listen_addresses=",
        "max_connections=300", "shared_buffers=32MB", "autovacuum=off")  # fmt: skip


def is_wanted():
    return os.environ.get(SWITCH) == "1"


def find_binary(name):
    """Return the newest installed program of PostgreSQL, where Debian and others put it."""
    found = sorted(DEBIAN.glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    path = str(found[-1]) if found else shutil.which(name)
    assert path is not None, f"PostgreSQL is missing: install Debian's package postgresql ({name})"
    return path


class Server:
    """A running server, reached by a socket in its folder."""

    def __init__(self, folder, process):
        self.folder = folder
        self.process = process
        self._numbers = itertools.count(1)

    def url(self, name):
        return f"postgresql+psycopg://postgres@/{name}?host={self.folder}"

    def execute(self, statement, name="postgres"):
        place = f"host={self.folder} user=postgres dbname={name}"
        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute(statement)

    def create(self, name):
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def copy(self, template=TEMPLATE):
        """Return the URL of a new database like the template, which must have no connection."""
        name = f"t{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return self.url(name)

    def drop(self, url):
        name = urlsplit(url).path.strip("/")
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@contextmanager
def running():
    """Start a server that ends with the block; PostgreSQL refuses to run as root."""
    folder = Path(tempfile.mkdtemp(prefix="redkiln-pg-"))
    account = pwd.getpwnam("postgres") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
    os.chown(folder, account.pw_uid, account.pw_gid)
    as_other = {"user": account.pw_uid, "group": account.pw_gid} if os.getuid() == 0 else {}
    data = folder / "data"
    make = [find_binary("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync",
            "-E", "UTF8", "--locale=C.UTF-8"]  # fmt: skip
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL, cwd="/", **as_other)
    options = [part for setting in FAST for part in ("-c", setting)]
    command = [find_binary("postgres"), "-D", data, "-k", folder, *options]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **as_other)
    server = Server(folder, process)
    try:
        wait_for(lambda: _answers(server), seconds=60)
        yield server
    finally:
        process.send_signal(signal.SIGQUIT)  # SIGTERM would wait for clients
        process.wait(timeout=60)
        shutil.rmtree(folder)


def _answers(server):
    assert server.process.poll() is None, (server.folder / "log").read_text()
    try:
        server.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True
