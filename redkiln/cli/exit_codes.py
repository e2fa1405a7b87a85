"""What the command's exit status says."""

from enum import IntEnum

from redkiln.errors import (
    ApiError,
    ConnectionFailed,
    RedkilnError,
    TransferError,
    Unavailable,
    WaitTimeout,
)
from redkiln.job import ArtifactView, JobStatus, JobView
from redkiln.tasks import exports_model


class ExitCode(IntEnum):
    """Exit statuses that scripts can rely on."""

    OK = 0
    JOB_FAILED = 1
    BAD_REQUEST = 2
    UNREACHABLE = 3
    JOB_CANCELLED = 4
    UNVERIFIED = 5
    TRANSFER_FAILED = 6
    INTERRUPTED = 130


MEANINGS: dict[ExitCode, str] = {
    ExitCode.OK: "done; the job succeeded and its model, if it makes one, is verified",
    ExitCode.JOB_FAILED: "the job failed",
    ExitCode.BAD_REQUEST: "wrong usage, a bad spec or data set, or refused by the service",
    ExitCode.UNREACHABLE: "the service cannot be reached, or cannot do it now",
    ExitCode.JOB_CANCELLED: "the job was cancelled",
    ExitCode.UNVERIFIED: "the job succeeded, but its model missed the check against torch",
    ExitCode.TRANSFER_FAILED: "a download or upload arrived damaged or could not be written",
    ExitCode.INTERRUPTED: "interrupted (Ctrl-C); a watched job goes on",
}


def exit_code_of_error(error: RedkilnError) -> ExitCode:
    """The exit status for an error of the client."""
    if isinstance(error, ConnectionFailed | Unavailable | WaitTimeout):
        return ExitCode.UNREACHABLE
    if isinstance(error, TransferError) and not isinstance(error, ApiError):
        return ExitCode.TRANSFER_FAILED
    return ExitCode.BAD_REQUEST


def exit_code_of_job(job: JobView, artifacts: list[ArtifactView]) -> ExitCode:
    """The exit status for a job that has ended."""
    if job.status is JobStatus.CANCELLED:
        return ExitCode.JOB_CANCELLED
    if job.status is not JobStatus.SUCCEEDED:
        return ExitCode.JOB_FAILED
    if not exports_model(job.task) or is_verified(artifacts):
        return ExitCode.OK
    return ExitCode.UNVERIFIED


def is_verified(artifacts: list[ArtifactView]) -> bool:
    """Whether there is a model and every one passed its check."""
    models = [artifact for artifact in artifacts if artifact.kind == "model"]
    return bool(models) and all(model.verified for model in models)
