"""Projects own jobs, data sets, uploads and models; the audit log says who changed what."""

import sqlalchemy as sa
from alembic import op

revision: str = "0021"
down_revision: str | None = "0020"
branch_labels: str | None = None
depends_on: str | None = None

_OWNED = ("api_key", "job", "dataset", "upload", "registered_model")
_INDEXES = {
    "ix_job_status_id": ["status", "id"],
    "ix_job_by_id": ["id", "status", "task", "dataset_id", "search_text"],
    "ix_job_by_name": ["search_text", "id", "status", "task", "dataset_id"],
    "ix_job_by_end": ["finished_at", "id", "status", "task", "dataset_id", "search_text"],
    "ix_job_by_priority": ["priority", "id", "status", "task", "dataset_id", "search_text"],
}


def upgrade() -> None:
    """Apply."""
    for table in _OWNED:
        column = sa.Column("project", sa.String(), nullable=False, server_default="default")
        op.add_column(table, column)
    op.execute("UPDATE dataset SET project = '' WHERE kind = 'builtin'")
    for name, columns in _INDEXES.items():
        _index_again(name, _with_project(columns))
    op.create_table(
        "audit",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        *(
            sa.Column(name, sa.String(), nullable=False)
            for name in ("key_id", "key_name", "project", "action", "object", "outcome", "address")
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_audit_at", "audit", ["at"])
    op.create_index("ix_audit_key_id", "audit", ["key_id", "id"])
    op.create_index("ix_audit_object", "audit", ["object", "id"])


def downgrade() -> None:
    """Undo."""
    op.drop_table("audit")
    for name, columns in _INDEXES.items():
        _index_again(name, columns)
    for table in _OWNED:
        op.drop_column(table, "project")


def _with_project(columns: list[str]) -> list[str]:
    """Add the column behind the data set's, or at the end."""
    place = columns.index("dataset_id") + 1 if "dataset_id" in columns else len(columns)
    return [*columns[:place], "project", *columns[place:]]


def _index_again(name: str, columns: list[str]) -> None:
    op.drop_index(name, table_name="job")
    op.create_index(name, "job", columns)
