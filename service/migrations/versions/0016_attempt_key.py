"""An attempt knows the worker key that claimed it."""

import sqlalchemy as sa
from alembic import op

revision: str = "0016"
down_revision: str | None = "0015"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Apply."""
    op.add_column("attempt", sa.Column("key_id", sa.String(), nullable=True))


def downgrade() -> None:
    """Undo."""
    op.drop_column("attempt", "key_id")
