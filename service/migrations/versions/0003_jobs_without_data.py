"""Jobs of tasks that read no data set."""

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | None = None
depends_on: str | None = None

_QUEUE_INDEX = "ix_job_queue"


def upgrade() -> None:
    """Apply."""
    _change(is_nullable=True)


def downgrade() -> None:
    """Undo; jobs without a data set are removed, as the older release cannot show them."""
    op.execute("DELETE FROM job WHERE dataset_id IS NULL")
    _change(is_nullable=False)


def _change(*, is_nullable: bool) -> None:
    # When SQLite rebuilds the table, it forgets the order of an index's columns.
    op.drop_index(_QUEUE_INDEX, table_name="job")
    with op.batch_alter_table("job") as batch:
        batch.alter_column("dataset_id", existing_type=sa.String(), nullable=is_nullable)
    op.create_index(
        _QUEUE_INDEX, "job", ["status", sa.literal_column("priority DESC"), "id"], unique=False
    )
