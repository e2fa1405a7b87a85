import numpy as np
import pytest
from sqlmodel import SQLModel, select

from service.database import Database
from service.metrics import chunks
from service.metrics.models import MetricChunk


@pytest.fixture
def database(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/a.db")
    database.write(lambda s: SQLModel.metadata.create_all(s.connection()))
    yield database
    database.close()


def append(database, points, name="loss", attempt_id="att_1"):
    database.write(
        lambda s: chunks.append_points(
            s, job_id="job_1", attempt_id=attempt_id, name=name, points=points
        )
    )


def load(database, **filters):
    options = {"names": None, "after_step": None, **filters}
    return database.read(lambda s: chunks.load_points(s, "job_1", **options))


def test_points_come_back_in_order_whatever_the_batches(database, monkeypatch):
    monkeypatch.setattr(MetricChunk, "capacity", 7)
    points = [(step, step / 8) for step in range(1, 101)]
    for start in range(0, 100, 9):
        append(database, points[start : start + 9])
    assert load(database)["loss"]["att_1"].tolist() == [list(point) for point in points]
    rows = database.read(lambda s: s.exec(select(MetricChunk)).all())
    assert sorted((row.number, row.num_points) for row in rows) == [
        *((number, 7) for number in range(14)),
        (14, 2),
    ]


def test_a_repeated_step_is_left_out(database):
    append(database, [(1, 0.5), (2, 0.25)])
    append(database, [(2, 9.0), (3, 0.125)])
    assert load(database)["loss"]["att_1"].tolist() == [[1, 0.5], [2, 0.25], [3, 0.125]]


def test_points_after_a_step_are_dropped_from_one_attempts_series(database, monkeypatch):
    monkeypatch.setattr(MetricChunk, "capacity", 7)
    points = [(step, 1.0) for step in range(1, 31)]
    append(database, points)
    append(database, points[9:20], name="lr")
    append(database, points, attempt_id="att_2")
    database.write(lambda s: chunks.drop_points(s, "att_1", after_step=9))
    assert load(database)["loss"]["att_1"].tolist() == [list(point) for point in points[:9]]
    assert set(load(database)["loss"]) == {"att_1", "att_2"}
    assert len(load(database)["loss"]["att_2"]) == 30
    assert "lr" not in load(database)
    again = [(step, 2.0) for step in range(10, 31)]
    append(database, again)
    curve = load(database)["loss"]["att_1"].tolist()
    assert curve == [list(point) for point in points[:9] + again]


def test_series_are_separate_by_name_and_attempt(database):
    append(database, [(1, 1.0)])
    append(database, [(1, 2.0)], name="lr")
    append(database, [(1, 3.0)], attempt_id="att_2")
    assert set(load(database)) == {"loss", "lr"}
    assert set(load(database)["loss"]) == {"att_1", "att_2"}
    assert set(load(database, names=["lr"])) == {"lr"}


def test_chunks_that_end_before_the_wanted_step_are_not_read(database, monkeypatch):
    monkeypatch.setattr(MetricChunk, "capacity", 10)
    append(database, [(step, 0.0) for step in range(100)])
    assert load(database, after_step=85)["loss"]["att_1"][0, 0] == 80


def test_a_million_points_are_packed_small(database):
    append(database, np.column_stack([np.arange(10**5), np.zeros(10**5)]))
    size = database.read(lambda s: sum(len(row.points) for row in s.exec(select(MetricChunk))))
    assert size == 16 * 10**5
