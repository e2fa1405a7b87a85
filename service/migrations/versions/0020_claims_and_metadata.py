"""Claims read the queued jobs from a narrow index, and lists find jobs by their metadata."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "0020"
down_revision: str | None = "0018"
branch_labels: str | None = None
depends_on: str | None = None

_JOB = sa.table(
    "job",
    *(sa.column(name) for name in ("id", "status", "needs")),
    *(sa.column(name, sa.JSON) for name in ("spec", "resolved_spec", "metadata")),
)
_METADATA = sa.table("job_metadata", *(sa.column(name) for name in ("job_id", "key", "value")))
_READ = ["place", "id", "device", "needs", "task", "dataset_id", "created_at", "failures_used"]
_BATCH = 1000


def upgrade() -> None:
    """Apply."""
    op.add_column("job", sa.Column("needs", sa.String(), nullable=False, server_default=""))
    _fill_needs(op.get_bind())
    queued = sa.text("status = 'queued'")
    op.create_index(
        "ix_job_claim",
        "job",
        [sa.text("priority DESC"), *_READ],
        sqlite_where=queued,
        postgresql_where=queued,
    )
    op.create_table(
        "job_metadata",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "key"),
    )
    _fill_metadata(op.get_bind())
    op.create_index("ix_job_metadata_value", "job_metadata", ["key", "value", "job_id"])


def downgrade() -> None:
    """Undo."""
    op.drop_table("job_metadata")
    op.drop_index("ix_job_claim", table_name="job")
    op.drop_column("job", "needs")


def _pages(connection: sa.Connection, statement: sa.Select[Any]) -> Iterator[Sequence[sa.Row[Any]]]:
    page, after = statement.order_by(_JOB.c.id).limit(_BATCH), ""
    while rows := connection.execute(page.where(_JOB.c.id > after)).all():
        after = rows[-1].id
        yield rows


def _fill_metadata(connection: sa.Connection) -> None:
    for rows in _pages(connection, sa.select(_JOB.c.id, _JOB.c["metadata"].label("entries"))):
        entries = [
            {"job_id": row.id, "key": key, "value": value}
            for row in rows
            for key, value in (row.entries or {}).items()
        ]
        if entries:
            connection.execute(sa.insert(_METADATA), entries)


def _fill_needs(connection: sa.Connection) -> None:
    """Fill in what the queued jobs need; others get it when they are queued again."""
    queued = sa.select(_JOB.c.id, _JOB.c.spec, _JOB.c.resolved_spec).where(
        _JOB.c.status == "queued"
    )
    for rows in _pages(connection, queued):
        connection.execute(
            sa.update(_JOB)
            .where(_JOB.c.id == sa.bindparam("of_job"))
            .values(needs=sa.bindparam("needed")),
            [{"of_job": row.id, "needed": _needs(row.spec, row.resolved_spec)} for row in rows],
        )


def _needs(spec: Mapping[str, Any], resolved_spec: Mapping[str, Any] | None) -> str:
    resources = spec["resources"]
    defaults = {"device": "any", "arch": [], "gpus": 1, "engine": "auto"}
    needs = {name: resources.get(name, default) for name, default in defaults.items()}
    packages = sorted(_packages(resolved_spec or spec))
    return json.dumps({**needs, "packages": packages}, separators=(",", ":"))


def _packages(spec: Mapping[str, Any]) -> set[str]:
    model, training, export, resources = (
        found if isinstance(found := spec.get(name), Mapping) else {}
        for name in ("model", "training", "export", "resources")
    )
    if resources.get("engine") == "tinygrad":
        return {"tinygrad"}
    variants = export.get("variants") or []
    has_qat = any(isinstance(v, Mapping) and v.get("name") == "int8-qat" for v in variants)
    return {
        *({"timm", "torchvision"} if model.get("source") == "timm" else ()),
        *({"compiler"} if training.get("compile") == "default" else ()),
        *({"torchao"} if has_qat else ()),
    }
