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

    def __init__(self, folder, start):
        self.folder = folder
        self._start = start
        self.process = None
        self._numbers = itertools.count(1)

    def start(self):
        """Start it, the first time or after it was killed, and wait until it answers."""
        self.process = self._start()
        wait_for(lambda: _answers(self), seconds=60)

    def kill(self):
        """End it at once with all its processes, as a crash does."""
        self.process.send_signal(signal.SIGQUIT)  # SIGTERM would wait for clients
        self.process.wait(timeout=60)

    def url(self, name):
        return f"postgresql+psycopg://postgres@/{name}?host={self.folder}"

    def connect(self, name="postgres"):
        place = f"host={self.folder} user=postgres dbname={name}"
        return psycopg.connect(place, autocommit=True)

    def execute(self, statement, name="postgres"):
        with self.connect(name) as connection:
            connection.execute(statement)

    def fetch(self, statement):
        """Return the only value of a statement's answer."""
        with self.connect() as connection:
            return connection.execute(statement).fetchone()[0]

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
def running(*, is_durable=False):
    """Start a server that ends with the block; PostgreSQL refuses to run as root.

    Args:
        is_durable: Whether a killed server keeps what it has committed.
    """
    folder = Path(tempfile.mkdtemp(prefix="redkiln-pg-"))
    account = pwd.getpwnam("postgres") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
    os.chown(folder, account.pw_uid, account.pw_gid)
    as_other = {"user": account.pw_uid, "group": account.pw_gid} if os.getuid() == 0 else {}
    data = folder / "data"
    make = [find_binary("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync",
            "-E", "UTF8", "--locale=C.UTF-8"]  # fmt: skip
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL, cwd="/", **as_other)
    settings = [*FAST, "synchronous_commit=on"] if is_durable else FAST
    options = [part for setting in settings for part in ("-c", setting)]
    command = [find_binary("postgres"), "-D", data, "-k", folder, *options]

    def start():
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **as_other)

    server = Server(folder, start)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder)


def _answers(server):
    assert server.process.poll() is None, (server.folder / "log").read_text()
    try:
        server.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True
