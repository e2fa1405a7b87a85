import json
import os

import pyarrow.parquet as pq
import pytest

from redkiln.tables import METADATA_KEY, TableIndex, TableOptions
from service.datasets.inspect.__main__ import inspect
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.order import Order
from service.datasets.inspect.report import INDEX, InspectionReport, Refused


class Looked:
    """The report on a table, and the index of a valid one."""

    def __init__(self, report, path):
        self.report = report
        self.errors = report.errors
        self.codes = [error.code for error in report.errors]
        self.path = path

    @property
    def table(self):
        return pq.read_table(self.path)

    @property
    def index(self):
        return TableIndex.model_validate_json(self.table.schema.metadata[METADATA_KEY.encode()])

    def uses(self):
        return {column.name: column.type for column in self.report.columns}


@pytest.fixture
def look(tmp_path):
    """Inspects an upload in this process, as the child does."""
    counter = iter(range(1000))

    def look(content, *, limits=None, seed=0, **options):
        work_dir = tmp_path / str(next(counter))
        work_dir.mkdir()
        upload = work_dir / "upload"
        upload.write_bytes(content.encode() if isinstance(content, str) else content)
        order = Order(
            kind="archive",
            path=str(upload),
            parent_pid=os.getpid(),
            seed=seed,
            limits=limits or Limits(),
            options=TableOptions(**options),
        )
        try:
            report = inspect(order, work_dir=work_dir)
        except Refused as refused:
            report = InspectionReport(errors=refused.problems)
        assert (work_dir / INDEX).exists() != bool(report.errors)
        assert report.model_dump_json()
        return Looked(report, work_dir / INDEX)

    return look


@pytest.fixture
def rows():
    """A CSV of `n` rows: two numbers and a label."""

    def rows(n=40, *, header="x,size,label", label=lambda i: "ab"[i % 2]):
        lines = [f"{i * 0.37:.2f},{(i * 7) % 11},{label(i)}" for i in range(n)]
        return "\n".join([*([header] if header else []), *lines]) + "\n"

    return rows


@pytest.fixture
def json_lines():
    def json_lines(*rows):
        return "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)

    return json_lines
