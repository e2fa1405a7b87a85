"""A job keeps its result: metrics, verdict and times."""

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Apply."""
    op.add_column("job", sa.Column("result", sa.JSON(), nullable=True))


def downgrade() -> None:
    """Undo."""
    op.drop_column("job", "result")
