"""The trainer with all tasks plugged in: what `python -m worker.trainer` runs."""

from functools import partial

from worker.tasks import load_task
from worker.trainer import run

run_job = partial(run.run_job, load_task=load_task)
build_loop = partial(run.build_loop, load_task=load_task)
