"""The export with all tasks plugged in: what `python -m worker.export` runs."""

from functools import partial

from worker.export import run
from worker.tasks import load_task

export_job = partial(run.export_job, load_task=load_task)
