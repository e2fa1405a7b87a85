"""Settings of the service: read once at the entry point and passed down."""

import ipaddress
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

GIB = 1024**3
MIB = 1024**2
BIND_PATTERN = r"^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):\d{1,5}$"


class Settings(BaseSettings):
    """What the service needs to know; every field is an environment variable `REDKILN_<FIELD>`."""

    model_config = SettingsConfigDict(env_prefix="REDKILN_")

    bind: str = Field(
        "127.0.0.1:8321",
        pattern=BIND_PATTERN,
        description="Address and port; on a loopback address no key is asked for.",
    )
    public_bind: str | None = Field(
        None,
        pattern=BIND_PATTERN,
        description="Address and port that users reach where it is not `bind`: a container listens "
        "everywhere and its published address decides whether keys are asked for.",
    )
    host_names: Annotated[list[str], NoDecode] = Field(
        default_factory=list,
        description="Further names, separated by commas, by which a service that asks for no keys "
        "is reached: of its container in the network that it shares with its workers.",
    )
    auth: Literal["auto", "keys"] = Field(
        "auto", description="`keys` asks for a key on a loopback address too."
    )
    state_dir: Path = Field(Path("data"), description="Database, blobs, logs and keys.")
    database_url: str | None = Field(
        None, description="postgresql+psycopg://...; a SQLite file in the state folder if unset."
    )
    worker_key_file: Path | None = Field(
        None, description="Where the worker key is kept; in the state folder's keys if unset."
    )
    broker_url: str | None = Field(
        None, description="Redis of the doorbell; without it workers find jobs by polling alone."
    )
    storage_url: str | None = Field(
        None, description="s3://bucket/prefix; a folder in the state folder if unset."
    )
    data_roots: Annotated[list[Path], NoDecode] = Field(
        default_factory=list,
        description="Folders below which data sets may be registered in place, separated as PATH.",
    )
    max_upload_bytes: int = Field(16 * GIB, ge=1, description="Largest uploaded body.")
    max_json_bytes: int = Field(MIB, ge=1024, description="Largest JSON body of a request.")
    max_report_bytes: int = Field(
        32 * MIB, ge=1024, description="Largest report of an attempt (events and a piece of log)."
    )
    min_free_bytes: int = Field(
        GIB, ge=0, description="Below this much free disk nothing new is accepted (507)."
    )
    scripts: Literal["off", "on"] = Field(
        "off",
        description="Whether those who need no key may have programs of their own run (task "
        "`script`); with keys their scope decides.",
    )
    max_bundle_bytes: int = Field(256 * MIB, ge=1024, description="Largest code of a script.")
    keep_bundles_hours: float = Field(
        168.0, ge=0, description="How long code is kept that no job names."
    )
    log_quota_bytes: int = Field(64 * MIB, ge=0, description="Kept log of one attempt.")
    lease_seconds: float = Field(
        90.0, gt=0, description="Without a report for so long an attempt's worker is lost."
    )
    report_seconds: float = Field(
        2.0,
        gt=0,
        description="Longest time between two reports of an attempt, and until a worker that has "
        "nothing to report hears of a pause or a cancel.",
    )
    poll_seconds: float = Field(30.0, gt=0, description="How often an idle worker asks for work.")
    status_seconds: float = Field(
        5.0, gt=0, description="How often a worker tells what its GPUs do."
    )
    reap_seconds: float = Field(15.0, gt=0, description="Pause between two rounds of housekeeping.")
    republish_seconds: float = Field(
        60.0, gt=0, description="A queued job not claimed for so long has its message sent again."
    )
    heartbeat_seconds: float = Field(
        15.0, gt=0, description="Longest silence on an event stream before a comment is sent."
    )
    idempotency_days: float = Field(7.0, gt=0, description="How long idempotency keys are kept.")
    staging_hours: float = Field(
        24.0, gt=0, description="Age at which abandoned uploads and unused blobs are removed."
    )
    keep_checkpoints_hours: float = Field(
        168.0,
        ge=0,
        description="How long a job that failed or was cancelled can be retried from them.",
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
        """Whether users must show a key; workers always must."""
        return self.auth == "keys" or not self.is_loopback

    @property
    def sqlite_path(self) -> Path:
        """The embedded database's file."""
        return self.state_dir / "redkiln.db"

    @property
    def resolved_database_url(self) -> str:
        """The configured database, else the embedded one."""
        return self.database_url or f"sqlite:///{self.sqlite_path.absolute()}"

    @property
    def logs_dir(self) -> Path:
        """One log file an attempt."""
        return self.state_dir / "logs"

    @property
    def previews_dir(self) -> Path:
        """The newest sample predictions of each job."""
        return self.state_dir / "previews"

    @property
    def keys_dir(self) -> Path:
        """First keys and the secret that attempt tokens are made with."""
        return self.state_dir / "keys"

    @property
    def resolved_worker_key_file(self) -> Path:
        """Where the first worker key is written, for workers to read."""
        return self.worker_key_file or self.keys_dir / "worker.key"

    def prepare_state_dir(self) -> None:
        """Make the state folder, readable by its owner alone.

        Raises:
            OSError: The folder cannot be made.
        """
        self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.logs_dir.mkdir(mode=0o700, exist_ok=True)
        self.previews_dir.mkdir(mode=0o700, exist_ok=True)
