"""Jobs have a place in the queue, and what lists search and sort by."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: str | None = None
depends_on: str | None = None

_JOB = sa.table(
    "job",
    *(sa.column(name) for name in ("id", "name", "task", "dataset_id", "dataset_name", "model")),
    *(sa.column(name) for name in ("place", "search_text")),
    *(sa.column(name, sa.JSON) for name in ("spec", "resolved_spec", "result")),
)
_DATASET = sa.table("dataset", sa.column("id"), sa.column("name"))
_METRIC = sa.table("job_metric", sa.column("job_id"), sa.column("name"), sa.column("value"))
_FILTERED = ["status", "task", "dataset_id", "search_text"]
_INDEXES = {
    "ix_job_by_id": ["id", *_FILTERED],
    "ix_job_by_name": ["search_text", "id", *_FILTERED[:3]],
    "ix_job_by_end": ["finished_at", "id", *_FILTERED],
    "ix_job_by_priority": ["priority", "id", *_FILTERED],
}
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_BATCH = 1000


def upgrade() -> None:
    """Apply."""
    op.add_column("job", sa.Column("dataset_name", sa.String(), nullable=True))
    op.add_column("job", sa.Column("model", sa.String(), nullable=True))
    op.add_column("job", sa.Column("place", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("job", sa.Column("search_text", sa.String(), nullable=False, server_default=""))
    op.create_table(
        "job_metric",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "name"),
    )
    _fill(op.get_bind())
    op.create_index("ix_job_metric_value", "job_metric", ["name", "value", "job_id"])
    for name, columns in _INDEXES.items():
        op.create_index(name, "job", columns)
    op.drop_index("ix_job_queue", table_name="job")
    op.create_index("ix_job_queue", "job", ["status", sa.text("priority DESC"), "place", "id"])


def downgrade() -> None:
    """Undo."""
    op.drop_index("ix_job_queue", table_name="job")
    op.create_index("ix_job_queue", "job", ["status", sa.text("priority DESC"), "id"])
    for name in _INDEXES:
        op.drop_index(name, table_name="job")
    op.drop_table("job_metric")
    for name in ("search_text", "place", "model", "dataset_name"):
        op.drop_column("job", name)


def _fill(connection: sa.Connection) -> None:
    datasets = {row.id: row.name for row in connection.execute(sa.select(_DATASET))}
    columns = [_JOB.c[name] for name in ("id", "name", "task", "dataset_id", "spec",
                                         "resolved_spec", "result")]  # fmt: skip
    page, after = sa.select(*columns).order_by(_JOB.c.id).limit(_BATCH), ""
    while rows := connection.execute(page.where(_JOB.c.id > after)).all():
        after = rows[-1].id
        described = [_describe(row._asdict(), datasets) for row in rows]
        connection.execute(
            sa.update(_JOB)
            .where(_JOB.c.id == sa.bindparam("of_job"))
            .values({name: sa.bindparam(name) for name in described[0] if name != "of_job"}),
            described,
        )
        metrics = [
            {"job_id": row.id, "name": name, "value": value}
            for row in rows
            for name, value in ((row.result or {}).get("metrics") or {}).items()
        ]
        if metrics:
            connection.execute(sa.insert(_METRIC), metrics)


def _describe(row: Mapping[str, Any], datasets: Mapping[str, str]) -> dict[str, Any]:
    dataset_name = datasets.get(row["dataset_id"])
    model = _model(row["resolved_spec"] or row["spec"])
    parts = (row["name"], row["id"], dataset_name or "", model or "", row["task"])
    return {
        "of_job": row["id"],
        "dataset_name": dataset_name,
        "model": model,
        "place": _place(row["id"]),
        "search_text": "\n".join(part[:200].casefold() for part in parts),
    }


def _model(spec: Mapping[str, Any]) -> str | None:
    model = spec.get("model")
    if not isinstance(model, Mapping):
        return model if isinstance(model, str) else None
    name, pretrained = model.get("name"), model.get("pretrained")
    chosen = pretrained if name in (None, "auto") and pretrained else name
    return None if chosen is None else str(chosen)


def _place(job_id: str) -> int:
    """Return the time of creation in an id, in microseconds, times 1024."""
    value = 0
    for char in job_id.partition("_")[2][:12]:
        value = value << 5 | max(0, _ALPHABET.find(char))
    return value << 10
