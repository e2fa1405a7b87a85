"""`python -m worker.script JOBDIR` runs a job's script; `local` runs one here, without a queue."""

import os
import sys
from pathlib import Path

from worker.jobdir import EXIT_STOPPED, JobDir
from worker.trainer.lifetime import Stopped, StopSignal, die_with_parent, leave

EXIT_INTERRUPTED = 130
"""Ctrl-C before the program was started; afterwards its own status counts."""


def main(arguments: list[str]) -> int:
    """Run a script; the exit statuses are those of worker.jobdir, or the script's own."""
    if arguments[:1] == ["local"]:
        from worker.script.local import run_local

        try:
            return run_local(arguments[1:])
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED
    parent = os.environ.get("REDKILN_PARENT_PID")
    die_with_parent(int(parent) if parent else None)
    stop = StopSignal()
    stop.install()
    from worker.script.job import run_job

    try:
        return run_job(JobDir(Path(arguments[0])), stop)
    except Stopped:
        return EXIT_STOPPED


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
