"""The inspecting process: one argument, the path of an `Order` as JSON."""

import errno
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from redkiln.advice.hidden import note_hidden
from redkiln.annotations import AnyImageIndex
from redkiln.tables import IMAGE_TASKS, INSTANCES, SEGMENTATION
from service.datasets.inspect.arrays.naming import looks_like_arrays
from service.datasets.inspect.boxes.find import Annotations, find_annotations
from service.datasets.inspect.labelled.inspection import inspect_labelled
from service.datasets.inspect.labelled.rows import find_labels_file
from service.datasets.inspect.layout import arrange
from service.datasets.inspect.limits import Limits, allow_memory, confine
from service.datasets.inspect.listing import Entry, Listing
from service.datasets.inspect.masks.find import MaskFiles, find_masks
from service.datasets.inspect.order import Order
from service.datasets.inspect.probing import probe_all
from service.datasets.inspect.quality.classes import check_classes
from service.datasets.inspect.quality.images import check_images
from service.datasets.inspect.quality.spellings import check_spellings
from service.datasets.inspect.report import INDEX, InspectionReport, Refused, problem, refuse, show
from service.datasets.inspect.source import UNPACKED, Source, open_archive, open_folder
from service.datasets.inspect.tables.find import find_tables, has_images, is_lone_table
from service.datasets.inspect.verdict import judge


def main(order_path: Path) -> None:
    """Inspect the order's data set; write `report.json`, and the index if the set is valid."""
    order = Order.model_validate_json(order_path.read_bytes())
    confine(order.limits, parent_pid=order.parent_pid)
    work_dir = order_path.parent
    try:
        report = inspect(order, work_dir=work_dir)
    except Refused as refused:
        report = InspectionReport(errors=refused.problems)
    except MemoryError:
        report = _fail("too_large", "the data set needs more memory than allowed; make it smaller")
    except OSError as error:
        for path in (UNPACKED, INDEX):
            (work_dir / path).unlink(missing_ok=True)  # make room for the report
        report = _explain_full(error)
    (work_dir / "report.json").write_text(report.model_dump_json())


def inspect(order: Order, *, work_dir: Path) -> InspectionReport:
    """Inspect an order's data set; write its index next to the report if it is valid.

    Raises:
        Refused: The data set cannot be used, nor inspected completely.
    """
    limits = replace(order.limits, max_skipped=order.options.skip_bad)
    if order.kind == "archive" and _is_table(Path(order.path)):
        _refuse_table(order)
        allow_memory(limits.table_memory_bytes)
        from service.datasets.inspect.tables.inspection import inspect_lone_table

        return inspect_lone_table(
            Path(order.path),
            order.options,
            work_dir=work_dir,
            seed=order.seed,
            num_threads=order.num_processes,
            limits=limits,
        )
    with _open(order, work_dir=work_dir) as source:
        files = source.list_files(limits=limits)
        report = _inspect_files(source, files, order, work_dir=work_dir, limits=limits)
    report.notes = [*report.notes, *note_hidden(map(show, files.ignored))]
    return report


def _inspect_files(
    source: Source, files: Listing, order: Order, *, work_dir: Path, limits: Limits
) -> InspectionReport:
    shared = {"skip_bad", "labels_separator", "encoding"}
    wants_images = order.options.task in IMAGE_TASKS
    given = order.options.given().keys() - shared
    wants_table = bool(given) and not wants_images
    has_pictures = has_images(files.files)
    may_be_labelled = not wants_table or (has_pictures and given <= {"target"})
    labels_file = find_labels_file(files.files) if may_be_labelled else None
    if labels_file is not None and has_pictures:
        index, report = inspect_labelled(
            source,
            files.files,
            labels_file,
            separator=order.options.labels_separator,
            target=order.options.target,
            encoding=order.options.encoding,
            seed=order.seed,
            num_processes=order.num_processes,
            limits=limits,
        )
        return _leave(index, report, work_dir=work_dir)
    if tables := find_tables(files.files, wants_table=wants_table):
        _refuse_table(order)
        allow_memory(limits.table_memory_bytes)
        from service.datasets.inspect.tables.inspection import inspect_tables

        stamp = source.stamp()  # before the files are read
        report = inspect_tables(
            source,
            tables,
            order.options,
            work_dir=work_dir,
            seed=order.seed,
            num_threads=order.num_processes,
            limits=limits,
        )
        return report.model_copy(update={"stamp": stamp})
    if wants_table or order.options.labels_separator is not None:
        message = (
            "the data set contains no table, but table options were given "
            f"({_list_given(order)}); remove them, or add a table"
        )
        raise refuse("no_table", message)
    if masks := _find_masks(source, files.files, order.options.task, limits=limits):
        allow_memory(limits.table_memory_bytes)
        from service.datasets.inspect.masks.inspection import inspect_masks

        segmentation, report = inspect_masks(
            source,
            files.files,
            masks,
            seed=order.seed,
            num_processes=order.num_processes,
            limits=limits,
        )
        return _leave(segmentation, report, work_dir=work_dir)
    if annotations := find_annotations(source, files.files, limits=limits):
        allow_memory(limits.table_memory_bytes)
        from service.datasets.inspect.boxes.inspection import inspect_boxes

        detection, report = inspect_boxes(
            source,
            files.files,
            annotations,
            has_masks=order.options.task == INSTANCES,
            seed=order.seed,
            num_processes=order.num_processes,
            limits=limits,
        )
        return _leave(detection, report, work_dir=work_dir)
    if order.options.task == INSTANCES:
        message = (
            f"the data set lacks masks of objects for {INSTANCES}; add annotations as COCO or "
            "LabelMe with polygons"
        )
        raise refuse("no_masks", message)
    if looks_like_arrays(files.files):
        from service.datasets.inspect.arrays.inspection import inspect_arrays

        found = inspect_arrays(source, files.files, seed=order.seed, limits=limits)
        index, report = found
        if index is not None:
            report.warnings += check_classes(report.counts)
        return _leave(index, report, work_dir=work_dir)
    layout = arrange([entry.path for entry in files.files], files.folders)
    entries = [files.files[member.position] for member in layout.members]
    probes = probe_all(source, entries, limits=limits, num_processes=order.num_processes)
    index, report = judge(files.files, layout, probes, seed=order.seed, limits=limits)
    if index is not None:
        pairs = zip(entries, probes, strict=True)
        looks = {e.path: p.facts.look for e, p in pairs if p.facts and p.facts.look}
        report.warnings = [
            *check_classes(report.counts),
            *check_spellings(report.classes),
            *check_images(index, looks),
        ]
    return _leave(index, report, work_dir=work_dir)


def _find_masks(
    source: Source, files: Sequence[Entry], task: str | None, *, limits: Limits
) -> MaskFiles | Annotations | None:
    """Return the masks of a data set, or what has regions if the task wants them; None without.

    Raises:
        Refused: The task needs masks, and the data set has neither masks nor regions.
    """
    if task not in (None, SEGMENTATION):
        return None
    masks = find_masks(files, is_asked=task == SEGMENTATION)
    if task is None and masks is not None and masks.names is None:
        # Sets of boxes may bring masks along.
        return None if find_annotations(source, files, limits=limits) else masks
    found: MaskFiles | Annotations | None = masks
    if found is None and task == SEGMENTATION:
        found = find_annotations(source, files, limits=limits)
        if found is None:
            message = (
                f"the data set lacks masks for {SEGMENTATION}; put PNG masks into a folder masks, "
                "or add annotations as COCO or LabelMe"
            )
            raise refuse("no_masks", message)
    return found


def _refuse_table(order: Order) -> None:
    """Refuse a table if a task with images was named."""
    if order.options.task in IMAGE_TASKS:
        message = f"the data set is a table, but {order.options.task} needs images; remove the task"
        raise refuse("no_images", message)


def _leave(
    index: AnyImageIndex | None, report: InspectionReport, *, work_dir: Path
) -> InspectionReport:
    """Write the index of a valid set of images."""
    if index is not None:
        report.task = index.task
        (work_dir / INDEX).write_text(index.model_dump_json(exclude_none=True))
    return report


def _is_table(path: Path) -> bool:
    with path.open("rb") as file:
        return is_lone_table(file)


def _list_given(order: Order) -> str:
    return ", ".join(order.options.given())


def _open(order: Order, *, work_dir: Path) -> AbstractContextManager[Source]:
    if order.kind == "folder":
        return open_folder(Path(order.path), order.below)
    return open_archive(Path(order.path), work_dir=work_dir, limits=order.limits)


def _explain_full(error: OSError) -> InspectionReport:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        message = (
            "the service's disk is too full to unpack the data set; free space and upload again"
        )
        return _fail("storage_full", message)
    if error.errno == errno.EFBIG:
        return _fail(
            "too_large", "the data set unpacks to more bytes than allowed; make it smaller"
        )
    raise error


def _fail(code: str, message: str) -> InspectionReport:
    return InspectionReport(errors=[problem(code, message)])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
