"""A worker says which optional packages it has."""

import sqlalchemy as sa
from alembic import op

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Apply."""
    op.add_column("worker", sa.Column("packages", sa.JSON(), nullable=True))


def downgrade() -> None:
    """Undo."""
    op.drop_column("worker", "packages")
