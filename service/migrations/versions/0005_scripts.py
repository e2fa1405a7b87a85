"""Code bundles, and the jobs that run them."""

import sqlalchemy as sa
from alembic import op

from service.database import UtcDateTime

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "bundle",
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("used_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("sha256"),
    )
    op.create_index("ix_bundle_used_at", "bundle", ["used_at"], unique=False)
    op.add_column("job", sa.Column("bundle_sha256", sa.String(), nullable=True))
    op.create_index("ix_job_bundle_sha256", "job", ["bundle_sha256"], unique=False)


def downgrade() -> None:
    """Undo; jobs that run scripts are removed, as the older release cannot show them."""
    op.execute("DELETE FROM job WHERE bundle_sha256 IS NOT NULL OR task = 'script'")
    op.drop_index("ix_job_bundle_sha256", table_name="job")
    op.drop_column("job", "bundle_sha256")
    op.drop_index("ix_bundle_used_at", table_name="bundle")
    op.drop_table("bundle")
