"""A trainer whose second rank has a fault of ours at step 12.

broken_rank.py JOBDIR
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from worker.jobdir import JobDir
from worker.process.lifetime import StopSignal, die_with_parent, leave
from worker.tasks.train import run_job
from worker.trainer.optim.gradients import Gradients
from worker.trainer.ranks.launcher import die_as, is_rank, lead_ranks

LATE = 12
accumulate = Gradients._accumulate
num_calls = 0


def break_down(self, forward, inputs, targets):
    global num_calls
    num_calls += 1
    if num_calls == LATE:
        raise ValueError("a fault of ours")
    return accumulate(self, forward, inputs, targets)


def main():
    die_with_parent(int(os.environ["REDKILN_PARENT_PID"]))
    stop = StopSignal()
    stop.install()
    job_dir = JobDir(Path(sys.argv[1]))
    if not is_rank(os.environ):
        command = [sys.executable, __file__]
        leave(die_as(lead_ranks(job_dir, job_dir.load_order(), stop, command=command)))
    if os.environ["RANK"] == "1":
        Gradients._accumulate = break_down
    leave(run_job(job_dir, stop))


main()
