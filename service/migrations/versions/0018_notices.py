"""Attempts refer to bytes that they have sent, and ends of jobs are sent to other programs."""

import sqlalchemy as sa
from alembic import op

revision: str = "0018"
down_revision: str | None = "0017"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Apply."""
    # Attempts that run during the upgrade have sent what they hold.
    op.add_column(
        "blob_hold", sa.Column("is_sent", sa.Boolean(), nullable=False, server_default=sa.true())
    )
    op.create_table(
        "notice",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("event", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("num_tries", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.Double(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("sent_at", sa.Double(), nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notice")),
    )
    op.create_index("ix_notice_due", "notice", ["status", "due_at"], unique=False)


def downgrade() -> None:
    """Undo."""
    op.drop_index("ix_notice_due", table_name="notice")
    op.drop_table("notice")
    op.drop_column("blob_hold", "is_sent")
