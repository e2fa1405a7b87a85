"""Models have names, versions and aliases."""

import sqlalchemy as sa
from alembic import op

revision: str = "0014"
down_revision: str | None = "0013"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "registered_model",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("last_version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "model_version",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("artifact_id", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("dataset_fingerprint", sa.String(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", "version"),
    )
    op.create_index("ix_model_version_job_id", "model_version", ["job_id"])
    op.create_table(
        "model_alias",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("alias", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("moved_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", "alias"),
    )


def downgrade() -> None:
    """Undo."""
    for table in ("model_alias", "model_version", "registered_model"):
        op.drop_table(table)
