"""What a claim compares for each queued job, stored apart so that it reads no spec."""

import json

from redkiln.spec.job_spec import Resources
from service.jobs.models import Job
from service.workers.eligibility import list_needed

_DECISIVE = ("device", "arch", "gpus", "engine")
"""Fields of `resources` that `fits` and `holds_back` read."""


def set_needs(job: Job) -> None:
    """Set the columns of a job by which a claim decides whether a worker can run it."""
    resources = Resources.model_validate(job.spec["resources"])
    job.device = "cpu" if resources.takes_cpu_slot else resources.device
    job.needs = needs_of(job)


def needs_of(job: Job) -> str:
    """Return what a worker must have for a job, as text."""
    resources = Resources.model_validate(job.spec["resources"])
    packages = sorted(list_needed(job.resolved_spec or job.spec))
    needs = {name: getattr(resources, name) for name in _DECISIVE}
    return json.dumps({**needs, "packages": packages}, separators=(",", ":"))
