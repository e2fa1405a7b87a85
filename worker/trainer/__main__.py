"""`python -m worker.trainer JOBDIR` trains a job; `--spare` waits, warm, for one on stdin."""

import argparse
import os
import sys
from pathlib import Path

from worker.trainer.lifetime import Stopped, StopSignal, die_with_parent, leave
from worker.trainer.threads import yield_while_waiting


def main(arguments: list[str]) -> int:
    """Run the trainer; the exit statuses are those of worker.jobdir."""
    parent = os.environ.get("REDKILN_PARENT_PID")
    die_with_parent(int(parent) if parent else None)
    parser = argparse.ArgumentParser(prog="python -m worker.trainer")
    parser.add_argument("job_dir", nargs="?", type=Path)
    parser.add_argument("--spare", action="store_true")
    options = parser.parse_args(arguments)
    if (options.job_dir is None) != options.spare:
        parser.error("give a job directory or --spare")
    stop = StopSignal()
    stop.install()
    yield_while_waiting()
    # After the parent check: torch takes over a second, in which a parent may die.
    from worker.jobdir import EXIT_DONE, EXIT_STOPPED, JobDir
    from worker.trainer import spare
    from worker.trainer.memory import keep_freed_memory
    from worker.trainer.run import run_job

    try:
        keep_freed_memory()
        job_dir = None if options.job_dir is None else JobDir(options.job_dir)
        if options.spare:
            spare.warm_up()
            job_dir = spare.wait_for_job()
            if job_dir is None:
                return EXIT_DONE
            spare.redirect_output(job_dir)
        assert job_dir is not None
        return run_job(job_dir, stop)
    except Stopped:
        return EXIT_STOPPED


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
