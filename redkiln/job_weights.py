"""How a spec says which weights a model starts from: `job:<id>` for those of another job."""

import re
from typing import Any, TypeGuard

from pydantic import ValidationInfo

JOB_PREFIX = "job:"
_JOB = re.compile(r"job:job_[A-Za-z0-9_-]{1,64}")


def is_job(value: object) -> TypeGuard[str]:
    """Whether this names a job's weights, rightly or not."""
    return isinstance(value, str) and value.startswith(JOB_PREFIX)


def expand_job(model: Any) -> Any:
    """A model's fields as they were written, with a job that stands as its name in `pretrained`."""
    fields = {"name": model} if isinstance(model, str) else model
    if not isinstance(fields, dict) or not is_job(fields.get("name")):
        return fields
    return {**{k: v for k, v in fields.items() if k != "name"}, "pretrained": fields["name"]}


def check_job(pretrained: str | None) -> str | None:
    """The same, if what names a job names one as jobs are named.

    Raises:
        ValueError: it does not.
    """
    if is_job(pretrained) and _JOB.fullmatch(pretrained) is None:
        raise ValueError("after job: stands a job's id, as in job:job_01j...")
    return pretrained


def check_pinned(initial_weights: str | None, info: ValidationInfo) -> str | None:
    """The same, if the model has a `pretrained` that it can be said of.

    Raises:
        ValueError: it starts from random weights.
    """
    if initial_weights is not None and info.data.get("pretrained", "") is None:
        raise ValueError(
            "says which version of pretrained is to be taken; name that, or leave this out to "
            "start from random weights"
        )
    return initial_weights
