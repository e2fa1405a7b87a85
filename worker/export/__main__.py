"""`python -m worker.export JOBDIR` exports a trained job on the CPU and writes its artifacts.

With `--spare` it waits for the job directory on stdin, its libraries imported.
"""

import argparse
import os
import sys
from pathlib import Path

from redkiln.imports import collector_off
from worker.process.lifetime import Stopped, StopSignal, die_with_parent, leave
from worker.process.threads import yield_while_waiting


def main(arguments: list[str]) -> int:
    """Run the export and return an exit status of `worker.jobdir`."""
    parent = os.environ.get("REDKILN_PARENT_PID")
    die_with_parent(int(parent) if parent else None)
    parser = argparse.ArgumentParser(prog="python -m worker.export")
    parser.add_argument("job_dir", nargs="?", type=Path)
    parser.add_argument("--spare", action="store_true")
    options = parser.parse_args(arguments)
    if (options.job_dir is None) != options.spare:
        parser.error("give either a job directory or --spare")
    StopSignal().install()
    yield_while_waiting()
    from worker.jobdir import EXIT_DONE, EXIT_STOPPED, JobDir

    try:
        from worker.process import handover

        requests = handover.greet_trainer(os.environ) if options.spare else None
        with collector_off():
            from worker.tasks.export import export_job

            if options.spare:
                from worker.export import spare

        job_dir = None if options.job_dir is None else JobDir(options.job_dir)
        if options.spare:
            job_dir = spare.wait_for_job(requests)
            if job_dir is None:
                return EXIT_DONE
            handover.redirect_output(job_dir)
        assert job_dir is not None
        return export_job(job_dir)
    except Stopped:
        return EXIT_STOPPED


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
