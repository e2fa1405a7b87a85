"""The boundary of a child process: every outcome becomes an event and an exit status."""

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from redkiln.events import EventKind, EventWriter
from redkiln.failure import JobFailure
from worker.jobdir import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED, JobDir, Order
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed, of_exception
from worker.process.lifetime import Stopped
from worker.process.reserve import Reserve


def run_guarded(
    job_dir: JobDir, order: Order, *, device: str, body: Callable[[EventLog], None], rank: int = 0
) -> int:
    """Run a child's work and turn an exception into the FAILURE event.

    Args:
        job_dir: The child's job directory.
        order: Order of the job.
        device: Device that the work runs on, for failure messages.
        body: The work.
        rank: Rank among the job's processes. Only the first writes events; the others write their
            failure to a file for the process that started them.

    Returns:
        The exit status (`worker.jobdir`).
    """
    reserve = Reserve(job_dir.root, rank=rank)
    events_path = Path(os.devnull) if rank else job_dir.events_path
    event_log = EventLog(EventWriter(events_path), progress_seconds=order.progress_seconds)
    try:
        body(event_log)
    except Stopped:
        return EXIT_STOPPED
    except Exception as error:  # noqa: BLE001 - the boundary: what crosses it is data
        if _is_caused_by_stop(error):
            return EXIT_STOPPED
        failure = of_exception(error, device=device)
        if not isinstance(error, TrainingFailed):
            traceback.print_exc()
        sys.stderr.write(f"{failure.code}: {failure.message}\n")
        reserve.release()
        _write_failure(job_dir, failure, rank=rank)
        return EXIT_FAILED
    finally:
        reserve.release()
    return EXIT_DONE


def _is_caused_by_stop(error: BaseException) -> bool:
    """Whether a library raised this error while it handled `Stopped`, as imports of C code do."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, Stopped):
        found = found.__cause__ or found.__context__
    return found is not None


def _write_failure(job_dir: JobDir, failure: JobFailure, *, rank: int) -> None:
    if rank:
        job_dir.rank_failure_path(rank).write_text(failure.model_dump_json())
        return
    # Open the file again: this repairs a last line that a full disk cut short.
    with EventWriter(job_dir.events_path) as writer:
        writer.write(EventKind.FAILURE, **failure.model_dump())
