"""How a spec names what it takes from another job: `job:<id>`, or one of its files."""

import re
from typing import Any, TypeGuard

from pydantic import ValidationInfo

JOB_PREFIX = "job:"
MODEL = "model.onnx"
"""The file of a job that `job:<id>` means."""
_ONNX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ /-]{0,200}\.onnx")
_JOB = re.compile(r"job:job_[A-Za-z0-9_-]{1,64}")


def is_job(value: object) -> TypeGuard[str]:
    """Return whether a value names a job's weights, well-formed or not."""
    return isinstance(value, str) and value.startswith(JOB_PREFIX)


def split_file(value: str) -> tuple[str, str]:
    """Return the job of `job:<id>` or `job:<id>/<name>`, and the name of its file."""
    job_id, _, name = value.removeprefix(JOB_PREFIX).partition("/")
    return job_id, name or MODEL


def check_job_file(value: str) -> None:
    """Check `job:<id>` or `job:<id>/<name>.onnx`.

    Raises:
        ValueError: The job id or the name is malformed.
    """
    job_id, name = split_file(value)
    check_job(f"{JOB_PREFIX}{job_id}")
    if _ONNX.fullmatch(name) is None:
        raise ValueError(
            "add / and the name of an ONNX file of that job, such as job:job_01j/best.onnx"
        )


def expand_job(model: Any) -> Any:
    """Return a model's fields with a job that was given as the name moved to `pretrained`."""
    fields = {"name": model} if isinstance(model, str) else model
    if not isinstance(fields, dict) or not is_job(fields.get("name")):
        return fields
    return {**{k: v for k, v in fields.items() if k != "name"}, "pretrained": fields["name"]}


def check_job(pretrained: str | None) -> str | None:
    """Return the value, after checking the job id in it if it names a job.

    Raises:
        ValueError: The job id is malformed.
    """
    if is_job(pretrained) and _JOB.fullmatch(pretrained) is None:
        raise ValueError("job: must be followed by the id of a job, e.g. job:job_01j...")
    return pretrained


def check_pinned(initial_weights: str | None, info: ValidationInfo) -> str | None:
    """Return the value, after checking that the model has a `pretrained` that it can refer to.

    Raises:
        ValueError: The model starts from random weights.
    """
    if initial_weights is not None and info.data.get("pretrained", "") is None:
        raise ValueError(
            "initial_weights is the version of pretrained, but pretrained is not set; set it, or "
            "remove initial_weights"
        )
    return initial_weights
