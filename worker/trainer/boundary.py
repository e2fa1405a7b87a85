"""The boundary of a child process: what happens inside leaves it as an event and an exit status."""

import sys
import traceback
from collections.abc import Callable

from redkiln.events import EventKind, EventWriter
from redkiln.failure import JobFailure
from worker.jobdir import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED, JobDir, Order
from worker.trainer.failed import TrainingFailed, of_exception
from worker.trainer.lifetime import Stopped
from worker.trainer.report import Report
from worker.trainer.reserve import Reserve


def run_guarded(
    job_dir: JobDir, order: Order, *, device: str, body: Callable[[Report], None]
) -> int:
    """Run a child's work; an exception becomes the FAILURE event.

    `device` is where the work runs, for the words of a failure.

    Returns:
        The exit status (worker.jobdir).
    """
    reserve = Reserve(job_dir.root)
    report = Report(EventWriter(job_dir.events_path), progress_seconds=order.progress_seconds)
    try:
        body(report)
    except Stopped:
        return EXIT_STOPPED
    except Exception as error:  # noqa: BLE001 - the boundary: what crosses it is data
        failure = of_exception(error, device=device)
        if not isinstance(error, TrainingFailed):
            traceback.print_exc()
        sys.stderr.write(f"{failure.code}: {failure.message}\n")
        reserve.release()
        _say_failure(job_dir, failure)
        return EXIT_FAILED
    finally:
        reserve.release()
    return EXIT_DONE


def _say_failure(job_dir: JobDir, failure: JobFailure) -> None:
    # Opened anew: after a write that a full disk cut short, opening repairs the last line.
    with EventWriter(job_dir.events_path) as writer:
        writer.write(EventKind.FAILURE, **failure.model_dump())
