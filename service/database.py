"""The database: one writer, a few readers, and the clock for leases.

SQLite has one connection that writes (and so also runs the checkpoints); writers wait for it in the
pool. Readers neither write nor checkpoint: before SQLite 3.51.3, a checkpoint that races a write of
another connection can lose pages. PostgreSQL uses the same functions.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
import structlog
from alembic import command
from alembic.config import Config
from sqlalchemy.engine import Connection, Engine, Row
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm.exc import StaleDataError
from sqlmodel import Session

from service.errors import DatabaseBusy, StorageFull

T = TypeVar("T")
log = structlog.get_logger()

MIGRATIONS_DIR = Path(__file__).with_name("migrations")
FIXED_SQLITE = (3, 51, 3)
"""First release without the WAL-reset bug. Source: sqlite.org/changes.html."""
MIGRATION_LOCK = 0x7265646B696C6E
"""Number of PostgreSQL's advisory lock: the package's name in ASCII."""
_BUSY_MS = 1000
_BUSY = "the database is locked or cannot be reached; try again"
_MAPPED_BYTES = 1024**3
"""Bytes of the file that readers map: a scan of an index needs no system call for each page."""
_TRANSIENT_PG = {"40001", "40P01", "53300", "55P03", "57P01", "57P02", "57P03"}
_CONNECTION_PG = "08"
"""First characters of the states that say that the connection was lost or not made."""
_FULL_PG = {"53100"}

CLOSE_SECONDS = 5.0
"""How long a close waits for threads that read."""
AWAY_SECONDS = 1.0
"""Time that a write waits for a server that cannot be reached: it holds a thread meanwhile, and
clients ask again."""


class UtcDateTime(sa.types.TypeDecorator[datetime]):
    """An aware UTC time, stored as seconds since 1970 so that SQL can calculate with it."""

    impl = sa.Double
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> float | None:  # noqa: ARG002, D102  SQLAlchemy's signature
        return None if value is None else value.timestamp()

    def process_result_value(self, value: float | None, dialect: sa.Dialect) -> datetime | None:  # noqa: ARG002, D102  SQLAlchemy's signature
        return None if value is None else datetime.fromtimestamp(value, UTC)


class _Now(sa.sql.functions.FunctionElement[float]):
    type = sa.Double()
    inherit_cache = True


@compiles(_Now, "sqlite")
def _sqlite_now(*_: Any, **__: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(_Now, "postgresql")
def _postgresql_now(*_: Any, **__: Any) -> str:
    return "(extract(epoch from clock_timestamp())::double precision)"


def database_now(*, plus_seconds: float = 0.0) -> sa.ColumnElement[datetime]:
    """Return the database's time as an SQL expression: the only clock for leases."""
    now: sa.ColumnElement[Any] = _Now() + plus_seconds if plus_seconds else _Now()
    return sa.type_coerce(now, UtcDateTime())


def read_now(session: Session) -> datetime:
    """Return the database's current time, for timestamps of this transaction."""
    now: datetime = session.execute(sa.select(database_now())).scalar_one()
    return now


class Database:
    """Runs functions in transactions.

    Args:
        url: SQLAlchemy URL.
        before_commit: Function called with the session of every write, as its last part.
        after_commit: Function called with the session of every committed write.
        make_room: Function called if the disk is full and a write would free space; returns
            whether there is more room now.
        busy_seconds: Seconds that a write waits for others before it raises `DatabaseBusy`.
    """

    def __init__(
        self,
        url: str,
        *,
        before_commit: Callable[[Session], None] = lambda _session: None,
        after_commit: Callable[[Session], None] | None = None,
        make_room: Callable[[], bool] = lambda: False,
        busy_seconds: float = 10.0,
    ) -> None:
        self.url = sa.make_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._before_commit = before_commit
        self._after_commit = after_commit
        self._make_room = make_room
        self._busy_seconds = busy_seconds
        self._writer = self._build_engine(writes=True)
        self._reader = self._build_engine(writes=False)
        self._local = threading.local()
        self._persistent: list[Connection] = []
        self._reading: set[Connection] = set()
        self._is_closed = False
        self._lock = threading.Condition()
        if self.is_sqlite and sqlite3.sqlite_version_info < FIXED_SQLITE:
            log.warning(
                "sqlite_old",
                version=sqlite3.sqlite_version,
                advice="let no other process open the database; 3.51.3 fixes the WAL-reset bug",
            )

    def free(self, function: Callable[[Session], T]) -> T:
        """Run a `function` that deletes, as `write` does; a full disk gets room for it first.

        Raises:
            DatabaseBusy: Other connections held the database for too long.
            StorageFull: The disk is full and no more room was made.
        """
        try:
            return self.write(function)
        except StorageFull:
            if not self._make_room():
                raise
            return self.write(function)

    def write(self, function: Callable[[Session], T]) -> T:
        """Run `function` in a writing transaction; it may run again if the database was busy.

        Raises:
            DatabaseBusy: Other connections held the database for too long.
            StorageFull: The disk is full.
        """
        began = time.monotonic()
        while True:
            try:
                with Session(self._writer, expire_on_commit=False) as session:
                    with session.begin():
                        result = function(session)
                        self._before_commit(session)
                    if self._after_commit is not None:
                        self._after_commit(session)
                    return result
            except sa.exc.TimeoutError as error:
                raise DatabaseBusy("the database is busy; try again") from error
            except (sa.exc.DBAPIError, StaleDataError) as error:
                _raise_if_full(error)
                if not _is_transient(error):
                    raise
                patience = AWAY_SECONDS if _is_away(error) else self._busy_seconds
                if time.monotonic() >= began + patience:
                    raise DatabaseBusy(_BUSY) from error
                time.sleep(0.05)

    def read(self, function: Callable[[Session], T]) -> T:
        """Run `function` on a consistent snapshot, which it must not change.

        Raises:
            DatabaseBusy: No reader became free, or the database was locked.
        """
        try:
            with Session(self._reader, expire_on_commit=False) as session:
                return function(session)
        except sa.exc.TimeoutError as error:
            raise DatabaseBusy("the database is busy; try again") from error
        except sa.exc.DBAPIError as error:
            if _is_transient(error):
                raise DatabaseBusy(_BUSY) from error
            raise

    def execute_read(
        self, statement: sa.Executable, parameters: dict[str, Any] | None = None
    ) -> list[Row[Any]]:
        """Return all rows of one statement, run on this thread's own connection (the hot path)."""
        try:
            with self._hold_thread_connection() as connection:
                return list(connection.execute(statement, parameters).all())
        except sa.exc.DBAPIError as error:
            self._drop_thread_connection()
            if _is_transient(error):
                raise DatabaseBusy(_BUSY) from error
            raise

    def upgrade(self, revision: str = "head") -> None:
        """Upgrade the schema to a revision (default: the newest) in one writing transaction.

        Other services that start on the same database wait until this is done: SQLite has only one
        writer, and on PostgreSQL an advisory lock serves for this.
        """
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS_DIR))
        with self._writer.begin() as connection:
            if not self.is_sqlite:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MIGRATION_LOCK)))
            config.attributes["connection"] = connection
            command.upgrade(config, revision)

    def close(self) -> None:
        """Close every connection, the writer's last, because only the writer may checkpoint.

        One that is still in use is closed when it is given back. SQLite crashes the process if a
        connection is closed while another thread reads with it, so this waits for such threads,
        and leaves the connection of one that takes too long as it is.
        """
        self._is_closed = True
        with self._lock:
            self._lock.wait_for(lambda: not self._reading, timeout=CLOSE_SECONDS)
            for connection in set(self._persistent) - self._reading:
                connection.invalidate()
                connection.close()
            self._persistent.clear()
        self._reader.dispose()
        self._writer.dispose()

    @contextmanager
    def _hold_thread_connection(self) -> Iterator[Connection]:
        """Keep this thread's connection open inside the block."""
        while True:
            connection = self._thread_connection()
            with self._lock:
                if not connection.closed:
                    self._reading.add(connection)
                    break
        try:
            yield connection
        finally:
            with self._lock:
                self._reading.discard(connection)
                self._lock.notify_all()

    def _thread_connection(self) -> Connection:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None or connection.closed:
            options = {"isolation_level": "AUTOCOMMIT"}
            connection = self._reader.connect().execution_options(**options)
            self._local.connection = connection
            with self._lock:
                self._persistent.append(connection)
        return connection

    def _drop_thread_connection(self) -> None:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            return  # it could not be made
        del self._local.connection
        with self._lock:
            if connection not in self._persistent:
                return  # it was closed with the database
            self._persistent.remove(connection)
        connection.invalidate()
        connection.close()

    def _build_engine(self, *, writes: bool) -> Engine:
        engine = self._build_sqlite(writes=writes) if self.is_sqlite else self._build_postgres()
        sa.event.listen(engine, "checkin", self._close_late)
        return engine

    def _close_late(self, _connection: object, entry: sa.pool.ConnectionPoolEntry) -> None:
        if self._is_closed:
            entry.close()

    def _build_postgres(self) -> Engine:
        return sa.create_engine(
            self.url, pool_size=8, max_overflow=56, pool_timeout=10, pool_pre_ping=True
        )

    def _build_sqlite(self, *, writes: bool) -> Engine:
        # The single connection is the writers' lock; there are as many readers as server threads.
        size = {"pool_size": 1, "max_overflow": 0} if writes else {"pool_size": 8}
        overflow = {} if writes else {"max_overflow": 120}
        engine = sa.create_engine(
            self.url,
            poolclass=sa.QueuePool,
            pool_timeout=self._busy_seconds,
            connect_args={"check_same_thread": False},
            **size,
            **overflow,
        )
        sa.event.listen(engine, "connect", _configure_writer if writes else _configure_reader)
        sa.event.listen(engine, "begin", _begin_write if writes else _begin_read)
        return engine


def _configure_writer(connection: sqlite3.Connection, _record: Any) -> None:
    # pysqlite would begin a deferred transaction lazily; the "begin" event does it instead.
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(f"PRAGMA busy_timeout={_BUSY_MS}")


def _configure_reader(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None
    pragmas = ("query_only=ON", "wal_autocheckpoint=0", f"mmap_size={_MAPPED_BYTES}")
    for pragma in (*pragmas, f"busy_timeout={_BUSY_MS}"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_write(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin_read(connection: Connection) -> None:
    # The hot path begins no transaction: the connection would keep seeing its first snapshot.
    if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
        connection.exec_driver_sql("BEGIN")


def _is_away(error: sa.exc.DBAPIError | StaleDataError) -> bool:
    """Return whether the database's server was not reached."""
    if not isinstance(error, sa.exc.OperationalError) or isinstance(error.orig, sqlite3.Error):
        return False
    state = getattr(error.orig, "sqlstate", None)
    return state is None or state.startswith(_CONNECTION_PG)


def _is_transient(error: sa.exc.DBAPIError | StaleDataError) -> bool:
    if isinstance(error, StaleDataError):
        return True  # another transaction changed the row between our read and our write
    if error.connection_invalidated:
        return True
    if isinstance(error.orig, sqlite3.OperationalError):
        return error.orig.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        # The server was not reached: the driver has no state to report then.
        return isinstance(error, sa.exc.OperationalError)
    return state in _TRANSIENT_PG or state.startswith(_CONNECTION_PG)


def _raise_if_full(error: Exception) -> None:
    cause = getattr(error, "orig", None)
    code = getattr(cause, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_FULL or getattr(cause, "sqlstate", None) in _FULL_PG:
        raise StorageFull("the disk of the database is full; free some space") from error
