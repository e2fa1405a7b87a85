"""A job keeps whether its user asked it to stop training and export the best so far."""

import sqlalchemy as sa
from alembic import op

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Apply."""
    op.add_column(
        "job", sa.Column("is_finishing", sa.Boolean(), nullable=False, server_default=sa.false())
    )


def downgrade() -> None:
    """Undo."""
    op.drop_column("job", "is_finishing")
