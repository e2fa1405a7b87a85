import os

import pytest

from redkiln.annotations import DetectionIndex
from service.datasets.inspect.__main__ import inspect
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.order import Order
from service.datasets.inspect.report import INDEX, InspectionReport, Refused
from tests.service.datasets.inspect.boxes.made import zipped


@pytest.fixture
def check(tmp_path):
    """Inspects files by name; returns the index, if they are valid, and the report."""

    def check(files, *, skip_bad=None, limits=None):
        path = tmp_path / "upload"
        path.write_bytes(zipped(files))
        order = Order(
            kind="archive",
            path=str(path),
            parent_pid=os.getpid(),
            limits=limits or Limits(),
            options={} if skip_bad is None else {"skip_bad": skip_bad},
        )
        try:
            report = inspect(order, work_dir=tmp_path)
        except Refused as refused:
            return None, InspectionReport(errors=refused.problems)
        if report.errors:
            return None, report
        assert report.task == "object-detection"
        return DetectionIndex.model_validate_json((tmp_path / INDEX).read_bytes()), report

    return check
