"""Worker <-> service messages.

A worker speaks with its worker key (`hello`, `status`, `claim`); an attempt with the token it was
given when it was claimed, and nothing else. Every message may be repeated: `claim` is idempotent by
`claim_id`, `status` and `report` by sequence number, uploads by sha256, `finish` by its content.

    POST /v1/workers/hello                      HelloRequest   -> HelloResponse
    POST /v1/workers/status                     StatusRequest  -> StatusResponse
    POST /v1/workers/claim                      ClaimRequest   -> 200 ClaimResponse | 204
    GET  /v1/attempts/{id}/dataset              -> bytes (archive, or a tar of the folder)
    GET  /v1/attempts/{id}/bundle               -> bytes (the code of a script, a tar)
    GET  /v1/attempts/{id}/dataset/index        -> DatasetIndex, or a table's Parquet file
    POST /v1/attempts/{id}/report               ReportRequest  -> ReportResponse
    HEAD /v1/attempts/{id}/blobs/{sha256}       -> 200 already stored | 404
    PUT  /v1/attempts/{id}/blobs/{sha256}       bytes          -> 201 | 422 other digest
    GET  /v1/attempts/{id}/blobs/{sha256}       -> bytes of one of the job's checkpoints
    POST /v1/attempts/{id}/checkpoints          CheckpointCommit -> CheckpointReceipt
    PUT  /v1/attempts/{id}/preview              bytes (PNG or Markdown) -> 204
    POST /v1/attempts/{id}/artifacts            ArtifactCommit -> 204 published at once
    POST /v1/attempts/{id}/finish               FinishRequest  -> FinishResponse

409 with code `superseded`, 410 and 401 mean: this attempt is no longer yours, stop the trainer and
change nothing. 409 with code `sequence_gap` means: send again from `expected_seq`. 426 means: the
worker speaks another protocol version.
"""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Base64Bytes,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from redkiln.events import Event
from redkiln.failure import JobFailure
from redkiln.hardware import DoctorReport, GpuState
from redkiln.job import GpuView
from redkiln.tables import TABLE_TASKS

PROTOCOL_VERSION = 1
ArtifactKind = Literal[
    "model",
    "manifest",
    "parity",
    "metrics",
    "figure",
    "report",
    "profile",
    "benchmark",
    "checkpoint",
    "log",
    "file",
]

MAX_NAME_DEPTH = 8
RESULT_MARK = "job.json"
"""What a client leaves beside the results that it fetches: the job as it was then."""
_NOT_IN_NAMES = frozenset('\\:*?"<>|')


def check_artifact_name(name: str) -> str:
    """The name of a file below a job's results: parts joined by `/`, each safe on any disk.

    Raises:
        ValueError: it is none; the text says why.
    """
    parts = name.split("/")
    if not 1 <= len(name) <= 255 or len(parts) > MAX_NAME_DEPTH:
        raise ValueError(f"a name has 1 to 255 characters and up to {MAX_NAME_DEPTH} parts")
    for part in parts:
        if not part or part.startswith(".") or part.endswith((" ", ".")) or part[0] == " ":
            raise ValueError(
                f"{part!r} is no part of a name: it is empty, or begins or ends with `.` or a space"
            )
        if not part.isprintable() or _NOT_IN_NAMES & set(part):
            raise ValueError(f"{part!r} holds characters that not every disk allows in a name")
    if name.casefold() == RESULT_MARK:
        raise ValueError(f"{RESULT_MARK!r} is what a job is described in where its files are kept")
    return name


ArtifactName = Annotated[str, AfterValidator(check_artifact_name)]
SeriesName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
TelemetryPoint = tuple[Annotated[int, Field(ge=0, lt=2**53)], FiniteFloat]
"""Milliseconds since 1970, and the value then."""


class Message(BaseModel):
    """A message; unknown fields are ignored, so that either side may be newer."""

    model_config = ConfigDict(extra="ignore")


class HelloRequest(Message):
    """A worker has started. A new `boot_id` ends the attempts of the old one at once."""

    worker_id: str = Field(pattern=r"^wrk_[a-z0-9]{8,64}$")
    boot_id: str
    protocol: int
    version: str
    hostname: str
    torch_version: str | None = None
    arch_list: list[str] = Field(default_factory=list)
    gpus: list[GpuView] = Field(default_factory=list)
    slots: int = Field(ge=1)


class HelloResponse(Message):
    """How often an idle worker asks for work; that is its heartbeat."""

    poll_seconds: float


class StatusRequest(Message):
    """What a worker's hardware is and does now; only the newest one is kept.

    Attributes:
        seq: rises with each status of this boot; one that comes late changes nothing.
        gpus: all that the host shows, excluded ones too, with their newest telemetry.
        doctor: when it was looked at anew; None leaves what was told before.
        sampling_seconds: what the newest readings of all sensors took together; on hardware some go
            through the card's firmware.
    """

    worker_id: str = Field(pattern=r"^wrk_[a-z0-9]{8,64}$")
    boot_id: str
    seq: int = Field(ge=1, lt=2**53)
    gpus: list[GpuState] = Field(default_factory=list, max_length=256)
    doctor: DoctorReport | None = None
    sampling_seconds: float | None = Field(None, ge=0)


class StatusResponse(Message):
    """Pause before the next status while there are sensors to tell of."""

    status_seconds: float = Field(gt=0)


class ClaimRequest(Message):
    """A worker has a free slot and asks for the best job that it can run.

    Attributes:
        claim_id: chosen by the worker; the same id gets the same answer.
        devices: kinds of its free slots.
        arches: of its free GPUs, an entry each; empty text for one that torch does not name.
        hint: the job id of the message that rang, if one did.
    """

    claim_id: str
    worker_id: str
    boot_id: str
    devices: list[Literal["gpu", "cpu"]]
    arches: list[str] = Field(default_factory=list)
    hint: str | None = None


class DatasetRef(Message):
    """The data set of a claimed job.

    Attributes:
        sha256: of the archive, or of the index of a folder; None for built-in sets.
        index_bytes: size of the index, which of a table is all that a worker reads.
        path: of a folder set: where it lies for whoever has it mounted.
        task: that the set is for.
    """

    id: str
    name: str
    kind: Literal["archive", "folder", "builtin"]
    sha256: str | None = None
    size_bytes: int | None = None
    index_sha256: str | None = None
    index_bytes: int | None = None
    path: str | None = None
    task: str | None = None

    @property
    def is_table(self) -> bool:
        """Whether its index holds all of it."""
        return self.task in TABLE_TASKS


class BundleRef(Message):
    """The code of a claimed script."""

    sha256: str
    size_bytes: int


class CheckpointRef(Message):
    """The last committed checkpoint of a job; `manifest` is the trainer's own."""

    step: int
    sha256: str
    size_bytes: int
    manifest: dict[str, Any]
    is_best: bool = False


class InitialRef(Message):
    """The checkpoint of another job, whose weights a job starts from."""

    job_id: str
    sha256: str
    size_bytes: int


class ClaimResponse(Message):
    """An attempt: what to run, and under which token to report it.

    Attributes:
        token: Bearer token of this attempt's endpoints.
        fence: rises with every attempt of the job.
        dataset: None where the task reads none.
        bundle: None where the task has no code of its own.
        initial: None where the spec starts from no other job's weights, or they are gone.
        checkpoints: committed ones to resume from, all that are kept, the newest first; an earlier
            one is for where those behind it are damaged.
        lease_seconds: without a report for so long the attempt is given to another worker.
        report_seconds: longest time between two reports.
    """

    attempt_id: str
    job_id: str
    job_name: str
    number: int
    fence: int
    token: str
    spec: dict[str, Any]
    dataset: DatasetRef | None = None
    bundle: BundleRef | None = None
    initial: InitialRef | None = None
    checkpoints: list[CheckpointRef] = Field(default_factory=list)
    lease_seconds: float
    report_seconds: float
    max_duration_seconds: float | None = None


class LogChunk(Message):
    """Bytes of the attempt's log from an offset on."""

    offset: int = Field(ge=0)
    data: Base64Bytes


class ReportRequest(Message):
    """Heartbeat, progress and events since the last acknowledged one.

    Attributes:
        first_seq: sequence number of `events[0]`; with no events, the next one to come.
        dropped_log_bytes: log bytes that the worker gave up on, so far.
        telemetry: of the attempt's GPUs and host: `{name: [[ms since 1970, value], ...]}` in rising
            times; points up to a series' last stored one are passed over. What cannot be read is
            ignored: a sensor must not cost a training.
    """

    first_seq: int = Field(ge=1)
    events: list[Event] = Field(default_factory=list, max_length=10_000)
    log: LogChunk | None = None
    dropped_log_bytes: int = 0
    telemetry: dict[SeriesName, list[TelemetryPoint]] = Field(default_factory=dict, max_length=512)

    @field_validator("telemetry", mode="wrap")
    @classmethod
    def _ignore_unreadable(cls, value: Any, read: ValidatorFunctionWrapHandler) -> Any:
        try:
            return read(value)
        except ValidationError:
            return {}


class ReportResponse(Message):
    """How far the service has the events and the log, and what the worker shall do.

    Attributes:
        log_size: next log offset wanted.
        log_full: the log's quota is used up; send no more of it.
        command: `cancel` and `pause` end the trainer (SIGTERM, then SIGKILL after the grace); of a
            paused one the newest checkpoint is committed first.
    """

    acked_seq: int
    log_size: int
    log_full: bool = False
    lease_seconds: float
    report_seconds: float
    command: Literal["continue", "pause", "cancel"] = "continue"


class CheckpointCommit(Message):
    """A checkpoint whose bytes are uploaded; from now on the job can resume from it."""

    step: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size_bytes: int = Field(ge=1)
    is_best: bool = False
    manifest: dict[str, Any]


class CheckpointReceipt(Message):
    """The steps of the checkpoints that the service now keeps."""

    kept_steps: list[int]


class ArtifactCommit(Message):
    """A file of the job whose bytes are uploaded; it is published when the attempt finishes."""

    name: ArtifactName
    kind: ArtifactKind
    media_type: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size_bytes: int = Field(ge=0)
    verified: bool | None = None


class FinishRequest(Message):
    """The attempt has ended; all its events and blobs were sent before.

    Attributes:
        outcome: `released` gives the job back without a penalty (the worker shuts down).
        last_seq: number of events the attempt had.
    """

    outcome: Literal["succeeded", "failed", "released", "paused", "cancelled"]
    last_seq: int = Field(ge=0)
    failure: JobFailure | None = None
    artifacts: list[ArtifactCommit] = Field(default_factory=list)


class FinishResponse(Message):
    """What became of the job (`redkiln.job.JobStatus`)."""

    job_status: str
