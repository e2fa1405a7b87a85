"""The inspecting process: one argument, the path of an `Order` as JSON."""

import errno
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from redkiln.datasets import DatasetIndex
from service.datasets.inspect.layout import arrange
from service.datasets.inspect.limits import confine
from service.datasets.inspect.order import Order
from service.datasets.inspect.probing import probe_all
from service.datasets.inspect.report import Refused, Report, problem
from service.datasets.inspect.source import UNPACKED, Source, open_archive, open_folder
from service.datasets.inspect.verdict import judge


def main(order_path: Path) -> None:
    """Inspect what the order names and leave `report.json`, and `index.json` if it is good."""
    order = Order.model_validate_json(order_path.read_bytes())
    confine(order.limits, parent_pid=order.parent_pid)
    work_dir = order_path.parent
    try:
        index, report = inspect(order, work_dir=work_dir)
    except Refused as refused:
        index, report = None, Report(errors=refused.problems)
    except MemoryError:
        index, report = None, _fail("too_large", "the names alone take more memory than is allowed")
    except OSError as error:
        (work_dir / UNPACKED).unlink(missing_ok=True)  # else there is no room for the report
        index, report = None, _explain_full(error)
    if index is not None:
        (work_dir / "index.json").write_text(index.model_dump_json(exclude_none=True))
    (work_dir / "report.json").write_text(report.model_dump_json())


def inspect(order: Order, *, work_dir: Path) -> tuple[DatasetIndex | None, Report]:
    """What an order's data set holds.

    Raises:
        Refused: it cannot be used, and not even be looked at in full.
    """
    limits = order.limits
    with _open(order, work_dir=work_dir) as source:
        files = source.list_files(limits=limits)
        layout = arrange([entry.parts for entry in files.files], files.folders)
        entries = [files.files[member.position] for member in layout.members]
        probes = probe_all(source, entries, limits=limits, num_processes=order.num_processes)
    return judge(files.files, layout, probes, seed=order.seed, limits=limits)


def _open(order: Order, *, work_dir: Path) -> AbstractContextManager[Source]:
    if order.kind == "folder":
        return open_folder(Path(order.path), order.below)
    return open_archive(Path(order.path), work_dir=work_dir, limits=order.limits)


def _explain_full(error: OSError) -> Report:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        message = "the service's disk is too full to unpack it; make room and upload it again"
        return _fail("storage_full", message)
    if error.errno == errno.EFBIG:
        return _fail("too_large", "it unpacks to more than is allowed")
    raise error


def _fail(code: str, message: str) -> Report:
    return Report(errors=[problem(code, message)])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
