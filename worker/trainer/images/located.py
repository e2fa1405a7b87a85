"""A data set of images on this host: its index, and its pixels decoded to the resolved format."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from redkiln.datasets import ImageIndex
from redkiln.failure import FailureCode
from redkiln.predict.pixels import PixelFormat
from redkiln.views.job import Progress
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.trainer.images.decode.decoded_set import DecodedImages, open_decoded
from worker.trainer.images.sources.builtins import INDEX, open_builtin

Index = TypeVar("Index", bound=ImageIndex)


@dataclass(frozen=True)
class LocatedDataset(Generic[Index]):
    """A data set on this host with its index."""

    index: Index
    index_path: Path
    source_path: Path
    fingerprint: str
    cache_dir: Path
    decoded_bytes: int


def locate_dataset(order: Order, index_class: type[Index]) -> LocatedDataset[Index]:
    """Find an order's data set and read its index, which is of the task's own class.

    Raises:
        TrainingFailed: the data set or its index cannot be read.
    """
    dataset, cache_dir = order.required_dataset, order.paths.cache_dir
    if dataset.kind == "builtin":
        folder = open_builtin(
            dataset.name.removeprefix("builtin:"),
            cache_dir=cache_dir,
            files_dir=None if dataset.path is None else Path(dataset.path),
        )
        source_path, index_path = folder, folder / INDEX
    else:
        assert dataset.path is not None
        assert dataset.index_path is not None
        source_path, index_path = Path(dataset.path), Path(dataset.index_path)
    try:
        index = index_class.model_validate_json(index_path.read_bytes())
    except (OSError, ValidationError) as error:
        message = f"the index of data set {dataset.name} cannot be read: {error}"
        raise TrainingFailed(FailureCode.DATASET_UNAVAILABLE, message) from error
    return LocatedDataset(
        index, index_path, source_path, dataset.fingerprint, cache_dir, order.limits.decoded_bytes
    )


def decode_dataset(
    located: LocatedDataset[Index], pixel_format: PixelFormat, *, event_log: EventLog
) -> DecodedImages:
    """Return the decoded set, from the cache or decoded now, and report the time it took.

    Raises:
        TrainingFailed: a file is missing, has changed, or cannot be decoded.
    """
    started = time.perf_counter()
    num_decoded = 0

    def on_progress(done: int, total: int) -> None:
        nonlocal num_decoded
        num_decoded = total
        if event_log.is_progress_due():
            metrics = {"decode/images": float(done), "decode/total": float(total)}
            event_log.progress(Progress(metrics=metrics))

    decoded = open_decoded(
        located.source_path,
        located.index_path,
        located.index,
        fingerprint=located.fingerprint,
        pixel_format=pixel_format,
        cache_dir=located.cache_dir,
        on_progress=on_progress,
        budget_bytes=located.decoded_bytes,
    )
    if not decoded.is_stored:
        event_log.message(_explain_packed(located, decoded, pixel_format))
    elif num_decoded:
        seconds = time.perf_counter() - started
        event_log.message(f"decoded {num_decoded:,} images in {seconds:.1f} s")
    return decoded


def _explain_packed(
    located: LocatedDataset[Index], decoded: DecodedImages, pixel_format: PixelFormat
) -> str:
    size_gb = decoded.facts.num_rows * pixel_format.num_bytes / 1e9
    rate = decoded.facts.images_per_second
    return (
        f"the decoded images would take {size_gb:.1f} GB, more than REDKILN_DECODED_BYTES "
        f"({located.decoded_bytes / 1e9:.1f} GB) or the worker's free disk space allows; all cores "
        "decode them again in every epoch, which limits training to "
        f"{rate or 0:,.0f} images/s on this worker"
    )
