"""Shows what a spec would run as, and what it would need, without running it."""

import json
from typing import Any

from sqlmodel import Session

from redkiln.spec.job_spec import TrainingSpec
from redkiln.views.job import Estimates
from service.jobs.checks import check
from service.jobs.forecast.estimate import estimate
from service.jobs.undecided import UndecidedSpec
from service.keys.caller import Caller
from service.settings import Settings


def render_dry_run(session: Session, settings: Settings, body: Any, *, caller: Caller) -> str:
    """Render a checked spec with its defaults, warnings and estimates as JSON.

    Raises:
        Unprocessable: The spec has problems; the error lists all of them.
    """
    checked = check(session, settings, body, caller=caller)
    estimates = Estimates(unknown=["time and memory: only training jobs are estimated"])
    if isinstance(checked.spec, UndecidedSpec):
        estimates = Estimates(unknown=["time and memory: the data set is still being validated"])
    elif isinstance(checked.spec, TrainingSpec):
        estimates = estimate(session, checked.spec, checked.dataset)
    return json.dumps(
        {
            "dry_run": True,
            "dataset_id": None if checked.dataset is None else checked.dataset.id,
            "spec": checked.spec.model_dump(mode="json"),
            "warnings": [warning.model_dump() for warning in checked.warnings],
            **estimates.model_dump(mode="json"),
        }
    )
