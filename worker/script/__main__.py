"""`python -m worker.script JOBDIR` runs a job's script; `local` runs one here, without a queue.

With `--spare` it imports its modules and waits for the job directory on stdin.
"""

import os
import signal
import sys
from pathlib import Path

from worker.jobdir import EXIT_DONE, EXIT_STOPPED, JobDir
from worker.process.lifetime import Stopped, StopSignal, die_with_parent, leave

EXIT_INTERRUPTED, EXIT_TERMINATED = 130, 143
"""For Ctrl-C or SIGTERM before the program was started; later its own status counts."""


def main(arguments: list[str]) -> int:
    """Run a script; the exit status is one of those in worker.jobdir, or the script's own."""
    if arguments[:1] == ["local"]:
        from worker.script.local import run_local

        # Until the program runs, SIGTERM exits here and ends whatever was started so far.
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_TERMINATED))
        try:
            return run_local(arguments[1:])
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED
        finally:
            signal.signal(signal.SIGTERM, before)
    parent = os.environ.get("REDKILN_PARENT_PID")
    die_with_parent(int(parent) if parent else None)
    stop = StopSignal()
    stop.install()
    from worker.script.job import run_job

    try:
        job_dir = _wait() if arguments == ["--spare"] else JobDir(Path(arguments[0]))
        return EXIT_DONE if job_dir is None else run_job(job_dir, stop)
    except Stopped:
        return EXIT_STOPPED


def _wait() -> JobDir | None:
    from worker.process import handover
    from worker.script.bounds.processes import hide_memory

    hide_memory()  # another slot's script may run as the same user
    job_dir = handover.wait_for_job()
    if job_dir is not None:
        handover.redirect_output(job_dir)
    return job_dir


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
