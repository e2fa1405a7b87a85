"""A newer service on the database that an older release left, while a job trains."""

from contextlib import closing

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from service.database import MIGRATIONS_DIR, Database
from service.settings import Settings

pytestmark = pytest.mark.integration


def configure():
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS_DIR))
    return config


REVISIONS = [each.revision for each in ScriptDirectory.from_config(configure()).walk_revisions()]
"""From the newest to the first."""


def take_back(database, revision):
    """Leave the database as the release with this revision had it."""
    config = configure()

    def downgrade(session):
        config.attributes["connection"] = session.connection()
        command.downgrade(config, revision)

    database.write(downgrade)


@pytest.mark.parametrize("revision", sorted({REVISIONS[1], REVISIONS[-1]}))
def test_a_job_of_an_older_release_resumes(site, revision):
    job_id = site.submit(epochs=30)
    site.wait_for_training(job_id)
    service = site.stack.service
    service.kill()
    settings = Settings(state_dir=site.stack.state_dir)
    with closing(Database(settings.resolved_database_url)) as database:
        take_back(database, revision)
    assert site.trainer_of() is not None
    service.restart()
    site.stack.wait_for_service()
    committed = site.committed_steps(job_id)
    job = site.wait_for_end(job_id)
    assert job.status == "succeeded"
    assert [str(attempt.status) for attempt in job.attempts] == ["succeeded"]
    assert site.committed_steps(job_id)[: len(committed)] == committed
    seqs = [event.seq for event in site.client.events(job_id)]
    assert seqs == list(range(1, len(seqs) + 1))
