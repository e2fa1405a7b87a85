"""Claims read the queued jobs from a narrow index."""

import json
from collections.abc import Mapping
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
    *(sa.column(name, sa.JSON) for name in ("spec", "resolved_spec")),
)
_READ = ["place", "id", "device", "needs", "task", "dataset_id", "created_at", "failures_used"]
_BATCH = 1000


def upgrade() -> None:
    """Apply."""
    op.add_column("job", sa.Column("needs", sa.String(), nullable=False, server_default=""))
    _fill(op.get_bind())
    queued = sa.text("status = 'queued'")
    op.create_index(
        "ix_job_claim",
        "job",
        [sa.text("priority DESC"), *_READ],
        sqlite_where=queued,
        postgresql_where=queued,
    )


def downgrade() -> None:
    """Undo."""
    op.drop_index("ix_job_claim", table_name="job")
    op.drop_column("job", "needs")


def _fill(connection: sa.Connection) -> None:
    """Fill in what the queued jobs need; others get it when they are queued again."""
    columns = (_JOB.c.id, _JOB.c.spec, _JOB.c.resolved_spec)
    page = sa.select(*columns).where(_JOB.c.status == "queued").order_by(_JOB.c.id).limit(_BATCH)
    after = ""
    while rows := connection.execute(page.where(_JOB.c.id > after)).all():
        after = rows[-1].id
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
