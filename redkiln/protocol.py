"""Messages between worker and service.

A worker authenticates with its worker key (`hello`, `status`, `claim`); an attempt only with the
token it received when it was claimed. Every message may be repeated: `claim` is idempotent by
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
    GET  /v1/attempts/{id}/blobs/{sha256}       -> bytes of one of the job's checkpoints, or of
                                                the files of another job that it starts from
    POST /v1/attempts/{id}/checkpoints          CheckpointCommit -> CheckpointReceipt
    PUT  /v1/attempts/{id}/preview              bytes (PNG or Markdown) -> 204
    POST /v1/attempts/{id}/artifacts            ArtifactCommit -> 204 published at once
    POST /v1/attempts/{id}/finish               FinishRequest  -> FinishResponse

409 with code `superseded`, 410 and 401 mean that the attempt no longer belongs to the sender: it
must stop the trainer and change nothing. 409 with code `sequence_gap` means: send again from
`expected_seq`. 426 means that the worker's protocol version is not supported.
"""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Base64Bytes,
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    FiniteFloat,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from redkiln.events import Event, Step
from redkiln.failure import JobFailure
from redkiln.tables import TABLE_TASKS
from redkiln.views.doctor import DoctorReport
from redkiln.views.hardware import GpuState
from redkiln.views.worker import EngineDevice, GpuView

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
"""File that a client writes next to downloaded results: the job as it was then."""
_NOT_IN_NAMES = frozenset('\\:*?"<>|')


def check_artifact_name(name: str) -> str:
    """Return the name of a job's file if it is valid: parts joined by `/`, safe on any disk.

    Raises:
        ValueError: The name is not valid; the text says why.
    """
    parts = name.split("/")
    if not 1 <= len(name) <= 255 or len(parts) > MAX_NAME_DEPTH:
        raise ValueError(f"a name must have 1 to 255 characters and at most {MAX_NAME_DEPTH} parts")
    for part in parts:
        if not part or part.startswith(".") or part.endswith((" ", ".")) or part[0] == " ":
            raise ValueError(
                f"{part!r} cannot be part of a name: it is empty, or starts or ends with `.` or a "
                "space"
            )
        if not part.isprintable() or _NOT_IN_NAMES & set(part):
            raise ValueError(f"{part!r} contains characters that some disks do not allow in names")
    if name.casefold() == RESULT_MARK:
        raise ValueError(f"{RESULT_MARK!r} is reserved for the description of the job")
    return name


def _check_ascii(text: str) -> str:
    if not text.isascii():
        raise ValueError("a media type has only ASCII characters")
    return text


ArtifactName = Annotated[str, AfterValidator(check_artifact_name)]
ShortText = Annotated[str, StringConstraints(max_length=255)]
SeriesName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
MediaType = Annotated[
    str,
    StringConstraints(
        max_length=200,
        pattern=r"^[\w!#$&^.+-]+/[\w!#$&^.+-]+(; ?[\w-]+=[\w.+-]+)*$",
    ),
    AfterValidator(_check_ascii),
]
"""Type that the service sends as the `Content-Type` of a download."""
_Bytes = Annotated[int, Field(ge=0, lt=2**53)]
TelemetryPoint = tuple[Annotated[int, Field(ge=0, lt=2**53)], FiniteFloat]
"""Milliseconds since 1970, and the value at that time."""


class Message(BaseModel):
    """A message; unknown fields are ignored, so that either side may be newer."""

    model_config = ConfigDict(extra="ignore")


class HelloRequest(Message):
    """Sent when a worker has started. A new `boot_id` ends the attempts of the old one at once.

    Attributes:
        packages: Installed ones of the optional packages that some jobs need; None: unknown.
        engine_devices: Devices for other engines than torch; None: unknown.
    """

    worker_id: str = Field(pattern=r"^wrk_[a-z0-9]{8,64}$")
    boot_id: ShortText
    protocol: int
    version: ShortText
    hostname: ShortText
    torch_version: ShortText | None = None
    arch_list: list[ShortText] = Field(default_factory=list, max_length=256)
    gpus: list[GpuView] = Field(default_factory=list, max_length=256)
    packages: list[str] | None = Field(None, max_length=64)
    engine_devices: list[EngineDevice] | None = Field(None, max_length=64)
    slots: int = Field(ge=1, le=4096)


class HelloResponse(Message):
    """How often an idle worker must ask for work, which is also its heartbeat."""

    poll_seconds: float


class StatusRequest(Message):
    """What a worker's hardware is and does; the service keeps only the newest status.

    Attributes:
        seq: Rises with each status of a boot; one that arrives late is ignored.
        gpus: All GPUs of the host, including excluded ones, with their newest telemetry.
        doctor: New report of the doctor; None keeps the previous one.
        sampling_seconds: Time that the newest reading of all sensors took; some hardware answers
            through the card's firmware.
    """

    worker_id: str = Field(pattern=r"^wrk_[a-z0-9]{8,64}$")
    boot_id: str
    seq: int = Field(ge=1, lt=2**53)
    gpus: list[GpuState] = Field(default_factory=list, max_length=256)
    doctor: DoctorReport | None = None
    sampling_seconds: float | None = Field(None, ge=0)


class StatusResponse(Message):
    """Time until the next status, while there are sensors to report.

    Attributes:
        kept_free: Keys of the worker's GPUs that must get no job, because their owner wants them.
    """

    status_seconds: float = Field(gt=0)
    kept_free: list[str] = Field(default_factory=list)


class ClaimRequest(Message):
    """Sent by a worker with a free slot, to get the best job that it can run.

    Attributes:
        claim_id: Chosen by the worker; the same id gets the same answer.
        devices: Kinds of devices of its free slots.
        arches: Architecture of each free GPU; empty if torch does not name it.
        busy: Those of the worker's packages that no other job can use now, because another job has
            leased their GPU.
        hint: Job id of the message that woke the worker, if any.
    """

    claim_id: ShortText
    worker_id: ShortText
    boot_id: ShortText
    devices: list[Literal["gpu", "cpu"]] = Field(max_length=256)
    arches: list[ShortText] = Field(default_factory=list, max_length=256)
    busy: list[ShortText] = Field(default_factory=list, max_length=64)
    hint: ShortText | None = None


class DatasetRef(Message):
    """The data set of a claimed job.

    Attributes:
        sha256: Digest of the archive, or of the index of a folder; None for built-in sets.
        index_bytes: Size of the index, which is all that a worker reads of a table.
        path: Path of a folder set, for workers that have it mounted.
        root: Folder above `path` that the service's operator has allowed; None if `path` is not
            below such a folder any more.
        stamp: Digest of the files of a folder with tables (`redkiln.datasets.stamp_folder`) when
            they were validated.
        task: Task that the set is for.
        warnings: Doubts about the quality of the data, which the report repeats.
        leaks: Those about columns that predict the target by themselves, for the report's headline.
        num_copies: Test samples that are copies or near copies of training samples, for the same.
        num_repeated: Test samples that are copies or near copies of others, for the same.
    """

    id: str
    name: str
    kind: Literal["archive", "folder", "builtin"]
    sha256: str | None = None
    size_bytes: int | None = None
    index_sha256: str | None = None
    index_bytes: int | None = None
    path: str | None = None
    root: str | None = None
    stamp: str | None = None
    task: str | None = None
    warnings: list[str] = Field(default_factory=list)
    leaks: list[str] = Field(default_factory=list)
    num_copies: int = 0
    num_repeated: int = 0

    @property
    def is_table(self) -> bool:
        """Whether the index holds all of the data set."""
        return self.task in TABLE_TASKS


class BundleRef(Message):
    """The code of a claimed script."""

    sha256: str
    size_bytes: int


class CheckpointRef(Message):
    """A committed checkpoint of a job; `manifest` is written by the trainer."""

    step: int
    sha256: str
    size_bytes: int
    manifest: dict[str, Any]
    is_best: bool = False


class InitialRef(Message):
    """A file of another job: the checkpoint that a job starts from or exports, or a manifest."""

    job_id: str
    sha256: str
    size_bytes: int


class ClaimResponse(Message):
    """An attempt: what to run, and the token to report it with.

    Attributes:
        token: Bearer token of this attempt's endpoints.
        fence: Rises with every attempt of the job.
        dataset: None if the task reads none.
        bundle: None if the task has no code.
        initial: None if the spec does not start from another job's weights, or they are gone.
        manifest: Manifest of the job that is exported again; None if it is gone.
        is_finishing: Whether to train no further: score the checkpoint and export the best one.
        checkpoints: Committed checkpoints that are kept, newest first, to resume from; an older
            one is used if the newer ones are damaged.
        lease_seconds: Time without a report after which another worker may get the job.
        report_seconds: Longest time between two reports.
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
    manifest: InitialRef | None = None
    checkpoints: list[CheckpointRef] = Field(default_factory=list)
    is_finishing: bool = False
    lease_seconds: float
    report_seconds: float
    max_duration_seconds: float | None = None


class LogChunk(Message):
    """Bytes of the attempt's log from an offset on."""

    offset: _Bytes
    data: Base64Bytes


class ReportRequest(Message):
    """Heartbeat, progress, and events since the last acknowledged one.

    Attributes:
        first_seq: Sequence number of `events[0]`; without events, the next number.
        dropped_log_bytes: Total log bytes that the worker has dropped so far.
        telemetry: Readings of the attempt's GPUs and host: `{name: [[ms since 1970, value], ...]}`
            in rising times. Points up to a series' last stored one are skipped. Unreadable values
            are ignored, because a sensor must not fail a training.
    """

    first_seq: int = Field(ge=1, lt=2**53)
    events: Annotated[list[Event], FailFast()] = Field(default_factory=list, max_length=10_000)
    log: LogChunk | None = None
    dropped_log_bytes: _Bytes = 0
    telemetry: dict[SeriesName, list[TelemetryPoint]] = Field(default_factory=dict, max_length=512)

    @field_validator("telemetry", mode="wrap")
    @classmethod
    def _ignore_unreadable(cls, value: Any, read: ValidatorFunctionWrapHandler) -> Any:
        try:
            return read(value)
        except ValidationError:
            return {}


class ReportResponse(Message):
    """How far the service has received events and log, and what the worker must do.

    Attributes:
        log_size: Next log offset that the service expects.
        log_full: Whether the log's quota is used up; the worker then sends no more of it.
        command: `cancel` and `pause` end the trainer (SIGTERM, then SIGKILL after the grace). When
            pausing, the newest checkpoint is committed first.
    """

    acked_seq: int
    log_size: int
    log_full: bool = False
    lease_seconds: float
    report_seconds: float
    command: Literal["continue", "pause", "cancel"] = "continue"


class CheckpointCommit(Message):
    """A checkpoint whose bytes are uploaded; from now on the job can resume from it."""

    step: Step
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size_bytes: int = Field(ge=1, lt=2**53)
    is_best: bool = False
    manifest: dict[str, Any]


class CheckpointReceipt(Message):
    """The steps of the checkpoints that the service now keeps."""

    kept_steps: list[int]


class ArtifactCommit(Message):
    """A file of the job whose bytes are uploaded; it is published when the attempt finishes."""

    name: ArtifactName
    kind: ArtifactKind
    media_type: MediaType
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size_bytes: _Bytes
    verified: bool | None = None


class FinishRequest(Message):
    """The attempt has ended; all its events and blobs were sent before.

    Attributes:
        outcome: `released` returns the job without a penalty (the worker is shutting down).
        last_seq: Number of events of the attempt.
    """

    outcome: Literal["succeeded", "failed", "released", "paused", "cancelled"]
    last_seq: int = Field(ge=0, lt=2**53)
    failure: JobFailure | None = None
    artifacts: Annotated[list[ArtifactCommit], FailFast()] = Field(default_factory=list)


class FinishResponse(Message):
    """The job's status after the attempt (`redkiln.status.JobStatus`)."""

    job_status: str
