"""A trainer for a GPU that does not exist: makes steps until it is stopped.

gpu_trainer.py inventory | train JOBDIR
"""

# ruff: noqa: T201  a program

import json
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from redkiln.events import EventWriter
from worker.jobdir import EXIT_STOPPED, JobDir

is_stopped = False


def stop(*_):
    global is_stopped
    is_stopped = True


def train(jobdir):
    signal.signal(signal.SIGTERM, stop)
    with EventWriter(jobdir.events_path) as events:
        events.write("phase", phase="training")
        step = 0
        while not is_stopped:
            step += 1
            events.write("progress", step=step, steps=10**6, fraction=step / 10**6)
            time.sleep(0.1)
    sys.exit(EXIT_STOPPED)


if sys.argv[1] == "inventory":
    gpus = json.loads(os.environ["REDKILN_TRAINER_FAKE_GPUS"])
    archs = sorted({gpu["arch"] for gpu in gpus})
    print(json.dumps({"torch_version": "2.13.0", "arch_list": archs, "gpus": gpus}))
else:
    train(JobDir(Path(sys.argv[2])))
