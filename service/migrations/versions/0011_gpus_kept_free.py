"""An owner can keep a GPU free of jobs."""

import sqlalchemy as sa
from alembic import op

revision: str = "0011"
down_revision: str | None = "0010"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "gpu_held",
        sa.Column("worker_id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=True),
        sa.Column("asked_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("worker_id", "key"),
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table("gpu_held")
