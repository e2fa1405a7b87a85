"""PostgreSQL cannot be reached: clients receive 503 with a time to retry."""

import socket

import pytest
import sqlalchemy as sa

from service.database import Database
from service.errors import DatabaseBusy

pytest.importorskip("psycopg")


@pytest.fixture
def database():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    database = Database(f"postgresql+psycopg://u:p@127.0.0.1:{port}/none", busy_seconds=0.1)
    yield database
    database.close()


@pytest.mark.parametrize(
    "ask",
    [
        lambda database: database.execute_read(sa.select(1)),
        lambda database: database.read(lambda session: session.execute(sa.select(1))),
        lambda database: database.write(lambda session: session.execute(sa.select(1))),
    ],
    ids=["hot path", "read", "write"],
)
def test_every_use_says_when_to_try_again(database, ask):
    for _ in range(2):
        with pytest.raises(DatabaseBusy, match="cannot be reached") as caught:
            ask(database)
        assert caught.value.status == 503
        assert int(caught.value.headers["Retry-After"]) > 0
