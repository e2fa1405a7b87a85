import sqlite3
import threading
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from sqlmodel import Session

from service.database import Database, UtcDateTime, database_now, read_now
from service.errors import DatabaseBusy, StorageFull

METADATA = sa.MetaData()
NOTE = sa.Table(
    "note", METADATA, sa.Column("id", sa.Integer, primary_key=True), sa.Column("at", UtcDateTime)
)
INSERT = sa.insert(NOTE).values(at=datetime(2026, 1, 2, tzinfo=UTC))
COUNT = sa.select(sa.func.count()).select_from(NOTE)


@pytest.fixture
def database(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/a.db", busy_seconds=0.3)
    database.write(lambda session: METADATA.create_all(session.connection()))
    yield database
    database.close()


def count(database):
    return database.execute_read(COUNT)[0][0]


def test_times_come_back_aware_and_in_utc(database):
    database.write(lambda session: session.execute(INSERT))
    assert database.execute_read(sa.select(NOTE.c.at))[0][0] == datetime(2026, 1, 2, tzinfo=UTC)


def test_the_databases_time_is_current_and_can_be_calculated_with(database):
    now = database.read(read_now)
    assert abs(now - datetime.now(UTC)) < timedelta(seconds=1)
    later = database.execute_read(sa.select(database_now(plus_seconds=90)))[0][0]
    assert timedelta(seconds=89) < later - now < timedelta(seconds=91)


def test_a_failed_write_leaves_nothing(database):
    def fail(session: Session) -> None:
        session.execute(INSERT)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        database.write(fail)
    assert count(database) == 0


def test_only_committed_writes_are_announced(tmp_path):
    announced = []
    database = Database(f"sqlite:///{tmp_path}/b.db", after_commit=lambda s: announced.append(s))

    def fail(session: Session) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        database.write(fail)
    assert announced == []
    database.write(lambda session: METADATA.create_all(session.connection()))
    assert len(announced) == 1
    database.close()


def test_a_reader_cannot_write(database):
    with pytest.raises(sa.exc.OperationalError, match="readonly"):
        database.read(lambda session: session.execute(INSERT))


def test_a_hot_read_sees_what_was_committed_since(database):
    assert count(database) == 0
    database.write(lambda session: session.execute(INSERT))
    assert count(database) == 1


def test_a_database_locked_by_another_process_is_busy_not_broken(database, tmp_path):
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(DatabaseBusy):
        database.write(lambda session: session.execute(INSERT))
    other.execute("ROLLBACK")
    other.close()
    database.write(lambda session: session.execute(INSERT))
    assert count(database) == 1


def test_a_writer_waits_for_another_and_gives_up_in_time(database):
    begun, end = threading.Event(), threading.Event()

    def hold(session: Session) -> None:
        session.execute(INSERT)
        begun.set()
        end.wait()

    thread = threading.Thread(target=database.write, args=(hold,), daemon=True)
    thread.start()
    begun.wait()
    try:
        with pytest.raises(DatabaseBusy):
            database.write(lambda session: session.execute(INSERT))
    finally:
        end.set()
        thread.join()
    assert count(database) == 1


def test_a_full_disk_has_its_own_error(database):
    def fill(session: Session) -> None:
        pages = session.execute(sa.text("PRAGMA page_count")).scalar_one()
        session.execute(sa.text(f"PRAGMA max_page_count={pages + 1}"))
        for _ in range(1000):
            session.execute(INSERT)

    with pytest.raises(StorageFull):
        database.write(fill)


def test_the_file_is_durable_and_journaled(database):
    def pragmas(session: Session) -> tuple[str, int, int]:
        return tuple(
            session.execute(sa.text(f"PRAGMA {name}")).scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        )

    assert database.write(pragmas) == ("wal", 2, 1)


def test_a_connection_in_use_at_the_close_is_closed_when_it_is_given_back(database):
    begun, may_end, raw = threading.Event(), threading.Event(), []

    def look(session):
        raw.append(session.connection().connection.dbapi_connection)
        begun.set()
        assert may_end.wait(30)

    reader = threading.Thread(target=database.read, args=(look,))
    reader.start()
    assert begun.wait(30)
    database.close()
    may_end.set()
    reader.join()
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        raw[0].execute("SELECT 1")


def test_a_close_waits_for_a_thread_that_reads(database):
    """SQLite ends the process if a connection is closed while a statement runs on it."""
    numbers = "SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500000"
    statement = sa.text(f"WITH RECURSIVE n(i) AS ({numbers}) SELECT max(i) FROM n")
    found = []
    reader = threading.Thread(target=lambda: found.extend(database.execute_read(statement)))
    reader.start()
    while not database._reading and not found:
        pass
    database.close()
    assert not database._reading
    reader.join()
    assert found == [(500_000,)]
