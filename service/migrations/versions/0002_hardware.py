"""The status of workers' hardware, and jobs' telemetry."""

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "worker_status",
        sa.Column("worker_id", sa.String(), nullable=False),
        sa.Column("boot_id", sa.String(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("gpus", sa.JSON(), nullable=False),
        sa.Column("exclusions", sa.JSON(), nullable=False),
        sa.Column("sampling_seconds", sa.Double(), nullable=True),
        sa.Column("doctor", sa.JSON(), nullable=True),
        sa.Column("doctor_verdict", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("worker_id"),
    )
    op.create_table(
        "telemetry_chunk",
        sa.Column("attempt_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("num_points", sa.Integer(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("points", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", "name", "number"),
    )
    op.create_index(
        "ix_telemetry_chunk_series",
        "telemetry_chunk",
        ["job_id", "name", "attempt_id", "number"],
        unique=False,
    )


def downgrade() -> None:
    """Undo."""
    op.drop_index("ix_telemetry_chunk_series", table_name="telemetry_chunk")
    op.drop_table("telemetry_chunk")
    op.drop_table("worker_status")
