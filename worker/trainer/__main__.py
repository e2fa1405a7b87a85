"""`python -m worker.trainer JOBDIR` trains a job; `--spare` warms up and waits for one on stdin."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from redkiln.imports import collector_off
from worker.process.lifetime import Stopped, StopSignal, die_with_parent, leave
from worker.process.threads import yield_while_waiting

if TYPE_CHECKING:
    from worker.jobdir import JobDir


def main(arguments: list[str]) -> int:
    """Run the trainer and return an exit status of `worker.jobdir`."""
    parent = os.environ.get("REDKILN_PARENT_PID")
    die_with_parent(int(parent) if parent else None)
    parser = argparse.ArgumentParser(prog="python -m worker.trainer")
    parser.add_argument("job_dir", nargs="?", type=Path)
    parser.add_argument("--spare", action="store_true")
    options = parser.parse_args(arguments)
    if (options.job_dir is None) != options.spare:
        parser.error("give either a job directory or --spare")
    stop = StopSignal()
    try:
        with stop.deferred():
            stop.install()
            yield_while_waiting()
            from worker.jobdir import EXIT_DONE, EXIT_STOPPED, JobDir
        if stop.requested:
            return EXIT_STOPPED
        job_dir = None if options.job_dir is None else JobDir(options.job_dir)
        if job_dir is not None and (status := _lead(job_dir, stop)) is not None:
            return status
        # After the parent check, because importing torch takes over a second.
        with collector_off():
            from worker.process import handover
            from worker.process.memory import keep_freed_memory
            from worker.tasks.train import run_job
            from worker.trainer.spare import warm_up

        keep_freed_memory()
        if options.spare:
            with collector_off():
                warm_up(is_job_waiting=handover.is_job_waiting)
            job_dir = handover.wait_for_job()
            if job_dir is None:
                return EXIT_DONE
            handover.redirect_output(job_dir)
        assert job_dir is not None
        status = _lead(job_dir, stop) if options.spare else None
        return run_job(job_dir, stop) if status is None else status
    except Stopped:
        return EXIT_STOPPED


def _lead(job_dir: "JobDir", stop: StopSignal) -> int | None:
    """Run the ranks of a job that has several; None: this process does the training."""
    from worker.jobdir import EXIT_STOPPED
    from worker.trainer.ranks.launcher import die_as, is_rank, lead_ranks

    if is_rank(os.environ):
        return None
    order = job_dir.load_order()
    if order.num_ranks < 2:
        return None
    try:
        return die_as(lead_ranks(job_dir, order, stop))
    except Stopped:
        return EXIT_STOPPED


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
