"""`python -m worker.export JOBDIR`: exports a trained job on the CPU and writes its artifacts."""

import argparse
import os
import sys
from pathlib import Path

from worker.trainer.lifetime import Stopped, StopSignal, die_with_parent
from worker.trainer.threads import yield_while_waiting


def main(arguments: list[str]) -> int:
    """Run the export; the exit statuses are those of worker.jobdir."""
    parent = os.environ.get("REDKILN_PARENT_PID")
    die_with_parent(int(parent) if parent else None)
    parser = argparse.ArgumentParser(prog="python -m worker.export")
    parser.add_argument("job_dir", type=Path)
    options = parser.parse_args(arguments)
    StopSignal().install()
    yield_while_waiting()
    from worker.jobdir import EXIT_STOPPED, JobDir

    try:
        from worker.export.run import export_job

        return export_job(JobDir(options.job_dir))
    except Stopped:
        return EXIT_STOPPED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
