"""A key says when it was last used."""

import sqlalchemy as sa
from alembic import op

revision: str = "0013"
down_revision: str | None = "0012"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Apply."""
    op.add_column("api_key", sa.Column("last_used_at", sa.Double(), nullable=True))


def downgrade() -> None:
    """Undo."""
    op.drop_column("api_key", "last_used_at")
