import json

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from service.database import Database
from service.jobs.models import Job, JobMetadata
from service.migrations.metadata import METADATA
from service.workers.needs import set_needs

FIRST = "0001"
JOB = {
    "id": "job_1",
    "name": "first",
    "task": "image-classification",
    "dataset_id": "ds_1",
    "status": "succeeded",
    "warnings": "[]",
    "spec": '{"a": 1}',
    "labels": '{"team": "a"}',
    "priority": 0,
    "device": "any",
    "fence": 1,
    "num_attempts": 1,
    "failures_used": 0,
    "losses_used": 0,
    "deaths_at_step": 0,
    "last_event_seq": 0,
    "revision": 1,
    "created_at": 1767225600.0,
}


@pytest.fixture
def database(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/a.db")
    yield database
    database.close()


def test_the_migrated_schema_matches_the_models(database):
    database.upgrade()
    context = database.write(
        lambda s: compare_metadata(
            MigrationContext.configure(s.connection(), opts={"compare_type": True}), METADATA
        )
    )
    assert context == []


def test_a_database_of_the_first_release_keeps_its_jobs(database):
    database.upgrade(FIRST)
    columns = ", ".join(JOB)
    values = ", ".join(f":{name}" for name in JOB)
    insert = sa.text(f"INSERT INTO job ({columns}) VALUES ({values})")
    database.write(lambda s: s.execute(insert, JOB))
    database.upgrade()
    job = database.read(lambda s: s.get(Job, "job_1"))
    assert (job.name, job.spec, job.created_at.year) == ("first", {"a": 1}, 2026)
    assert job.user_metadata == {"team": "a"}
    entry = database.read(lambda s: s.get(JobMetadata, ("job_1", "team")))
    assert entry.value == "a"


def test_queued_jobs_of_an_earlier_release_can_be_claimed(database):
    database.upgrade(FIRST)
    spec = {"resources": {"device": "gpu", "arch": ["gfx1100"]}, "model": {"source": "timm"}}
    queued = {**JOB, "status": "queued", "spec": json.dumps(spec)}
    columns, values = ", ".join(queued), ", ".join(f":{name}" for name in queued)
    insert = sa.text(f"INSERT INTO job ({columns}) VALUES ({values})")
    database.write(lambda s: s.execute(insert, queued))
    database.upgrade()
    job = database.read(lambda s: s.get(Job, "job_1"))
    migrated = job.needs
    set_needs(job)
    assert migrated == job.needs
    assert json.loads(migrated)["packages"] == ["timm", "torchvision"]


def test_upgrading_again_changes_nothing(database):
    database.upgrade()
    database.upgrade()
    tables = database.read(lambda s: sa.inspect(s.connection()).get_table_names())
    assert set(tables) == {*METADATA.tables, "alembic_version"}


def test_a_migration_that_fails_leaves_the_old_schema(database, monkeypatch):
    def stop(*_args, **_options):
        raise RuntimeError("half-way")

    monkeypatch.setattr("alembic.op.create_index", stop)
    with pytest.raises(RuntimeError, match="half-way"):
        database.upgrade()
    assert database.read(lambda s: sa.inspect(s.connection()).get_table_names()) == []
