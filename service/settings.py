"""Settings of the service, read once at the entry point and passed down."""

import contextlib
import ipaddress
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from service.notices.targets import Target, parse_target

GIB = 1024**3
MIB = 1024**2
BIND_PATTERN = r"^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):\d{1,5}$"


class Settings(BaseSettings):
    """Settings of the service; each field is an environment variable `REDKILN_<FIELD>`."""

    model_config = SettingsConfigDict(env_prefix="REDKILN_")

    bind: str = Field(
        "127.0.0.1:8321",
        pattern=BIND_PATTERN,
        description="Address and port. On a loopback address the service asks for no key.",
    )
    public_bind: str | None = Field(
        None,
        pattern=BIND_PATTERN,
        description="Address and port that users reach, if it differs from `bind`. A container "
        "listens on all addresses, so its published address decides whether keys are required.",
    )
    host_names: Annotated[list[str], NoDecode] = Field(
        default_factory=list,
        description="Additional host names, separated by commas, that a service without keys "
        "answers to, such as the name of its container in the network of its workers.",
    )
    auth: Literal["auto", "keys"] = Field(
        "auto", description="`keys` requires a key on a loopback address too."
    )
    state_dir: Path = Field(Path("data"), description="Folder for database, blobs, logs and keys.")
    database_url: str | None = Field(
        None, description="postgresql+psycopg://...; if unset, a SQLite file in the state folder."
    )
    worker_key_file: Path | None = Field(
        None, description="File for the worker key; if unset, a file in the state folder's keys/."
    )
    broker_url: str | None = Field(
        None, description="Redis for the messages that wake workers. Without it workers only poll."
    )
    storage_url: str | None = Field(
        None, description="s3://bucket/prefix; if unset, a folder in the state folder."
    )
    page_dir: Path = Field(
        Path(__file__).parents[1] / "page" / "dist",
        description="Folder of the built web page; `make page` builds it.",
    )
    data_roots: Annotated[list[Path], NoDecode] = Field(
        default_factory=list,
        description="Folders whose subfolders may be registered as data sets in place, separated "
        "like PATH.",
    )
    requests_per_second: float = Field(
        200.0, gt=0, description="Requests a second that one key may send for a long time (429)."
    )
    request_burst: int = Field(
        2000, ge=1, description="Requests that one key may send at once after a rest."
    )
    max_waiting_jobs: int | None = Field(
        10_000, ge=1, description="Queued jobs of one project, above which none is added (429)."
    )
    max_stored_bytes: int | None = Field(
        1024 * GIB,
        ge=1,
        description="Bytes of one project's data sets, files and checkpoints, above which it "
        "stores no more (429).",
    )
    audit_days: float = Field(
        365.0, gt=0, le=36_500, description="Days for which the audit log keeps an entry."
    )
    max_upload_bytes: int = Field(16 * GIB, ge=1, description="Largest uploaded body.")
    upload_part_bytes: int = Field(
        8 * MIB,
        ge=1024,
        le=256 * MIB,
        description="Size of the parts in which large data sets are uploaded; the service keeps "
        "each part in memory while it arrives.",
    )
    upload_hours: float = Field(
        24.0, gt=0, description="Time without a new part after which an upload is forgotten."
    )
    max_json_bytes: int = Field(MIB, ge=1024, description="Largest JSON body of a request.")
    max_report_bytes: int = Field(
        8 * MIB,
        ge=1024,
        description="Largest report of an attempt (events and a part of the log).",
    )
    min_free_bytes: int = Field(
        GIB, ge=0, description="Free disk space below which the service accepts no new data (507)."
    )
    scripts: Literal["off", "on"] = Field(
        "off",
        description="`on` allows users without a key to run scripts. If keys are required, their "
        "scope decides instead.",
    )
    max_bundle_bytes: int = Field(
        256 * MIB,
        ge=1024,
        description="Largest code bundle of a script, and largest uploaded ONNX file.",
    )
    keep_bundles_hours: float = Field(
        168.0, ge=0, description="Time until code bundles that no job uses are removed."
    )
    log_quota_bytes: int = Field(64 * MIB, ge=0, description="Log kept of each attempt.")
    lease_seconds: float = Field(
        90.0, gt=0, description="Time without a report after which an attempt's worker is lost."
    )
    report_seconds: float = Field(
        2.0,
        gt=0,
        description="Longest time between two reports of an attempt, and so the longest time until "
        "a worker receives a pause or cancel.",
    )
    poll_seconds: float = Field(30.0, gt=0, description="Interval at which an idle worker polls.")
    status_seconds: float = Field(
        5.0, gt=0, description="Interval at which a worker reports the state of its GPUs."
    )
    reap_seconds: float = Field(15.0, gt=0, description="Pause between two rounds of housekeeping.")
    republish_seconds: float = Field(
        60.0, gt=0, description="Time after which the message of an unclaimed job is sent again."
    )
    heartbeat_seconds: float = Field(
        15.0, gt=0, description="Longest silence on an event stream before a comment is sent."
    )
    idempotency_days: float = Field(
        7.0, gt=0, description="Time for which idempotency keys are kept."
    )
    staging_hours: float = Field(
        24.0, gt=0, description="Age at which blobs that nothing uses are removed."
    )
    keep_checkpoints_hours: float = Field(
        168.0,
        ge=0,
        description="Time for which checkpoints of failed or cancelled jobs are kept for a retry.",
    )
    keep_files_days: float | None = Field(
        None,
        ge=0,
        le=36_500,
        description="Days after its end for which a job keeps its published files; if unset, as "
        "long as the job. Files that a registered version needs are kept.",
    )
    keep_jobs_days: float | None = Field(
        None,
        ge=0,
        le=36_500,
        description="Days after its end for which a job is kept; if unset, until it is deleted. A "
        "job that a registered version needs is kept.",
    )
    session_hours: float = Field(
        168.0, gt=0, description="Time after which a browser must log in again."
    )
    notice_urls: Annotated[list[str], NoDecode] = Field(
        default_factory=list,
        repr=False,
        description="Where to send a message when a job ends, separated by spaces or commas: "
        "webhooks, ntfy, Discord, Slack or mail servers.",
    )
    notice_private: Literal["off", "on"] = Field(
        "off", description="`on` allows notice URLs whose hosts are in a private network."
    )
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @field_validator("data_roots", mode="before")
    @classmethod
    def _split_roots(cls, value: Any) -> Any:
        if isinstance(value, str):
            return [part for part in value.split(os.pathsep) if part]
        return value

    @field_validator("host_names", mode="before")
    @classmethod
    def _split_names(cls, value: Any) -> Any:
        if isinstance(value, str):
            return [part.strip().lower() for part in value.split(",") if part.strip()]
        return value

    @field_validator("notice_urls", mode="before")
    @classmethod
    def _split_urls(cls, value: Any) -> Any:
        return value.replace(",", " ").split() if isinstance(value, str) else value

    @field_validator("notice_urls")
    @classmethod
    def _check_urls(cls, value: list[str]) -> list[str]:
        for url in value:
            parse_target(url)
        return value

    @property
    def notice_targets(self) -> list[Target]:
        """The targets of messages about ended jobs."""
        return [parse_target(url) for url in dict.fromkeys(self.notice_urls)]

    @property
    def host(self) -> str:
        """The address without its port, and without an IPv6 address's brackets."""
        return self.bind.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port to listen on; 0 lets the system choose."""
        return int(self.bind.rpartition(":")[2])

    @property
    def public_host(self) -> str:
        """The address that users reach, without its port and brackets."""
        return (self.public_bind or self.bind).rpartition(":")[0].strip("[]")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        if self.public_host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.public_host).is_loopback
        except ValueError:
            return False

    @property
    def needs_keys(self) -> bool:
        """Whether users need a key; workers always do."""
        return self.auth == "keys" or not self.is_loopback

    @property
    def sqlite_path(self) -> Path:
        """The file of the embedded database."""
        return self.state_dir / "redkiln.db"

    @property
    def resolved_database_url(self) -> str:
        """The configured database, else the embedded one."""
        return self.database_url or f"sqlite:///{self.sqlite_path.absolute()}"

    @property
    def logs_dir(self) -> Path:
        """The folder with a log file for each attempt."""
        return self.state_dir / "logs"

    @property
    def previews_dir(self) -> Path:
        """The folder with each job's newest sample predictions."""
        return self.state_dir / "previews"

    @property
    def tiles_dir(self) -> Path:
        """The folder with pictures of data sets, which can be drawn again."""
        return self.state_dir / "tiles"

    @property
    def uploads_dir(self) -> Path:
        """The folder with the parts of uploads that have not ended."""
        return self.state_dir / "uploads"

    @property
    def keys_dir(self) -> Path:
        """The folder with the first keys and the secret for attempt tokens."""
        return self.state_dir / "keys"

    @property
    def resolved_worker_key_file(self) -> Path:
        """The file with the first worker key, for workers to read."""
        return self.worker_key_file or self.keys_dir / "worker.key"

    def prepare_state_dir(self) -> None:
        """Create the state folder, and make what it holds readable only by its owner.

        Raises:
            OSError: The folder cannot be created.
        """
        self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.logs_dir, self.previews_dir):
            folder.mkdir(mode=0o700, exist_ok=True)
            _make_private(folder, 0o700)
        if self.database_url is None:
            # SQLite gives its other files the mode of the database.
            os.close(os.open(self.sqlite_path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            for ending in ("", "-wal", "-shm"):
                _make_private(Path(f"{self.sqlite_path}{ending}"), 0o600)


def _make_private(path: Path, mode: int) -> None:
    """Take away others' rights, unless the path is missing or belongs to somebody else."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        path.chmod(mode)
