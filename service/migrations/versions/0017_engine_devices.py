"""A worker says which devices train with another engine than torch."""

import sqlalchemy as sa
from alembic import op

revision: str = "0017"
down_revision: str | None = "0016"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Apply."""
    op.add_column("worker", sa.Column("engine_devices", sa.JSON(), nullable=True))


def downgrade() -> None:
    """Undo."""
    op.drop_column("worker", "engine_devices")
