"""The exit statuses of the command."""

from enum import IntEnum

from redkiln.errors import (
    ApiError,
    ConnectionFailed,
    RedkilnError,
    TransferError,
    Unavailable,
    WaitTimeout,
)
from redkiln.status import JobStatus
from redkiln.tasks import exports_model
from redkiln.views.artifact import ArtifactView
from redkiln.views.job import JobView


class ExitCode(IntEnum):
    """Exit statuses that scripts can rely on."""

    OK = 0
    JOB_FAILED = 1
    BAD_REQUEST = 2
    UNREACHABLE = 3
    JOB_CANCELLED = 4
    UNVERIFIED = 5
    TRANSFER_FAILED = 6
    SKIPPED = 7
    INTERRUPTED = 130


MEANINGS: dict[ExitCode, str] = {
    ExitCode.OK: "success; the job succeeded and its model, if it has one, is verified",
    ExitCode.JOB_FAILED: "the job failed",
    ExitCode.BAD_REQUEST: "wrong usage, an invalid spec or data set, or refused by the service",
    ExitCode.UNREACHABLE: "the service cannot be reached, or is temporarily unavailable",
    ExitCode.JOB_CANCELLED: "the job was cancelled",
    ExitCode.UNVERIFIED: "the model failed its check, in its job or in `verify`",
    ExitCode.TRANSFER_FAILED: "a download or upload was corrupted or could not be written",
    ExitCode.SKIPPED: "`predict` skipped inputs that it could not read",
    ExitCode.INTERRUPTED: "interrupted (Ctrl-C); a watched job continues",
}


def exit_code_of_error(error: RedkilnError) -> ExitCode:
    """Return the exit status for an error of the client."""
    if isinstance(error, ConnectionFailed | Unavailable | WaitTimeout):
        return ExitCode.UNREACHABLE
    if isinstance(error, TransferError) and not isinstance(error, ApiError):
        return ExitCode.TRANSFER_FAILED
    return ExitCode.BAD_REQUEST


def exit_code_of_job(job: JobView, artifacts: list[ArtifactView]) -> ExitCode:
    """Return the exit status for a job that has ended."""
    if job.status is JobStatus.CANCELLED:
        return ExitCode.JOB_CANCELLED
    if job.status is not JobStatus.SUCCEEDED:
        return ExitCode.JOB_FAILED
    if is_verified(artifacts):
        return ExitCode.OK
    has_failed = any(one.verified is False for one in artifacts if one.kind == "model")
    # A script need not publish a model, or samples to check it with.
    return ExitCode.UNVERIFIED if has_failed or exports_model(job.task) else ExitCode.OK


def is_verified(artifacts: list[ArtifactView]) -> bool:
    """Return whether there is a model and every model is verified."""
    models = [artifact for artifact in artifacts if artifact.kind == "model"]
    return bool(models) and all(model.verified for model in models)
