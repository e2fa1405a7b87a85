"""What owners say about tables, and how large indexes are."""

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Apply."""
    with op.batch_alter_table("dataset") as batch:
        batch.add_column(sa.Column("index_bytes", sa.BigInteger(), nullable=True))
        batch.add_column(sa.Column("options", sa.JSON(), nullable=False, server_default="{}"))


def downgrade() -> None:
    """Undo."""
    with op.batch_alter_table("dataset") as batch:
        batch.drop_column("options")
        batch.drop_column("index_bytes")
