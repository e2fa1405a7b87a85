"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "api_key",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("secret_sha256", sa.String(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "artifact",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("attempt_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("media_type", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("verified", sa.Boolean(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job_id", "name"),
    )
    op.create_index(op.f("ix_artifact_job_id"), "artifact", ["job_id"], unique=False)
    op.create_index(op.f("ix_artifact_sha256"), "artifact", ["sha256"], unique=False)
    op.create_table(
        "attempt",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("worker_id", sa.String(), nullable=False),
        sa.Column("boot_id", sa.String(), nullable=False),
        sa.Column("claim_id", sa.String(), nullable=False),
        sa.Column("lease_until_at", sa.Double(), nullable=False),
        sa.Column("phase", sa.String(), nullable=True),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=True),
        sa.Column("resumed_from_step", sa.BigInteger(), nullable=True),
        sa.Column("log_bytes", sa.BigInteger(), nullable=False),
        sa.Column("lost_log_bytes", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.Column("failure", sa.JSON(), nullable=True),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("finish_sha256", sa.String(), nullable=True),
        sa.Column("finish_status", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("claim_id"),
        sa.UniqueConstraint("job_id", "fence"),
        sa.UniqueConstraint("job_id", "number"),
    )
    op.create_index(
        "ix_attempt_one_running",
        "attempt",
        ["job_id"],
        unique=True,
        sqlite_where=sa.text("status = 'running'"),
        postgresql_where=sa.text("status = 'running'"),
    )
    op.create_index(
        "ix_attempt_status_lease", "attempt", ["status", "lease_until_at"], unique=False
    )
    op.create_index("ix_attempt_worker_status", "attempt", ["worker_id", "status"], unique=False)
    op.create_table(
        "blob_hold",
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", "holder"),
    )
    op.create_index(op.f("ix_blob_hold_holder"), "blob_hold", ["holder"], unique=False)
    op.create_table(
        "checkpoint",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("attempt_id", sa.String(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("is_best", sa.Boolean(), nullable=False),
        sa.Column("manifest", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job_id", "step"),
    )
    op.create_index(op.f("ix_checkpoint_sha256"), "checkpoint", ["sha256"], unique=False)
    op.create_table(
        "dataset",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("task", sa.String(), nullable=True),
        sa.Column("sha256", sa.String(), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("path", sa.String(), nullable=True),
        sa.Column("index_sha256", sa.String(), nullable=True),
        sa.Column("seed", sa.Integer(), nullable=False),
        sa.Column("report", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("validated_at", sa.Double(), nullable=True),
        sa.Column("deleted_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_dataset_name_id", "dataset", ["name", "id"], unique=False)
    op.create_index(op.f("ix_dataset_status"), "dataset", ["status"], unique=False)
    op.create_table(
        "discarded_blob",
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("sha256"),
    )
    op.create_table(
        "idempotency_key",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("body_sha256", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("response", sa.String(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "key"),
    )
    op.create_index(
        op.f("ix_idempotency_key_created_at"), "idempotency_key", ["created_at"], unique=False
    )
    op.create_table(
        "job",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("task", sa.String(), nullable=False),
        sa.Column("dataset_id", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("phase", sa.String(), nullable=True),
        sa.Column("reason", sa.JSON(), nullable=True),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("progress", sa.JSON(), nullable=True),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("resolved_spec", sa.JSON(), nullable=True),
        sa.Column("environment", sa.JSON(), nullable=True),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("num_attempts", sa.Integer(), nullable=False),
        sa.Column("failures_used", sa.Integer(), nullable=False),
        sa.Column("losses_used", sa.Integer(), nullable=False),
        sa.Column("deaths_step", sa.BigInteger(), nullable=True),
        sa.Column("deaths_at_step", sa.Integer(), nullable=False),
        sa.Column("last_event_seq", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.Column("published_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_job_dataset_id"), "job", ["dataset_id"], unique=False)
    op.create_index(
        "ix_job_queue", "job", ["status", sa.literal_column("priority DESC"), "id"], unique=False
    )
    op.create_index("ix_job_status_id", "job", ["status", "id"], unique=False)
    op.create_index("ix_job_task_id", "job", ["task", "id"], unique=False)
    op.create_table(
        "job_event",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("attempt_id", sa.String(), nullable=True),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "seq"),
    )
    op.create_table(
        "metric_chunk",
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
        "ix_metric_chunk_series",
        "metric_chunk",
        ["job_id", "name", "attempt_id", "number"],
        unique=False,
    )
    op.create_table(
        "worker",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("boot_id", sa.String(), nullable=False),
        sa.Column("hostname", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("torch_version", sa.String(), nullable=True),
        sa.Column("arch_list", sa.JSON(), nullable=False),
        sa.Column("gpus", sa.JSON(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("last_seen_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_worker_last_seen_at"), "worker", ["last_seen_at"], unique=False)


def downgrade() -> None:
    """Undo."""
    op.drop_index(op.f("ix_worker_last_seen_at"), table_name="worker")
    op.drop_table("worker")
    op.drop_index("ix_metric_chunk_series", table_name="metric_chunk")
    op.drop_table("metric_chunk")
    op.drop_table("job_event")
    op.drop_index("ix_job_task_id", table_name="job")
    op.drop_index("ix_job_status_id", table_name="job")
    op.drop_index("ix_job_queue", table_name="job")
    op.drop_index(op.f("ix_job_dataset_id"), table_name="job")
    op.drop_table("job")
    op.drop_index(op.f("ix_idempotency_key_created_at"), table_name="idempotency_key")
    op.drop_table("idempotency_key")
    op.drop_table("discarded_blob")
    op.drop_index(op.f("ix_dataset_status"), table_name="dataset")
    op.drop_index("ix_dataset_name_id", table_name="dataset")
    op.drop_table("dataset")
    op.drop_index(op.f("ix_checkpoint_sha256"), table_name="checkpoint")
    op.drop_table("checkpoint")
    op.drop_index(op.f("ix_blob_hold_holder"), table_name="blob_hold")
    op.drop_table("blob_hold")
    op.drop_index("ix_attempt_worker_status", table_name="attempt")
    op.drop_index("ix_attempt_status_lease", table_name="attempt")
    op.drop_index(
        "ix_attempt_one_running",
        table_name="attempt",
        sqlite_where=sa.text("status = 'running'"),
        postgresql_where=sa.text("status = 'running'"),
    )
    op.drop_table("attempt")
    op.drop_index(op.f("ix_artifact_sha256"), table_name="artifact")
    op.drop_index(op.f("ix_artifact_job_id"), table_name="artifact")
    op.drop_table("artifact")
    op.drop_table("api_key")
