"""The column of a job's metadata has the name that the API uses."""

from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Apply."""
    op.alter_column("job", "labels", new_column_name="metadata")


def downgrade() -> None:
    """Undo."""
    op.alter_column("job", "metadata", new_column_name="labels")
