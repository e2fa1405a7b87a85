"""Settings of the worker: read once at the entry point and passed down."""

import sys
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from worker.jobdir import DECODED_BYTES, SCRIPT_CACHE_BYTES, ScriptConfinement

GIB = 1024**3


class WorkerSettings(BaseSettings):
    """What the worker needs to know; every field is an environment variable `REDKILN_<FIELD>`."""

    model_config = SettingsConfigDict(env_prefix="REDKILN_", populate_by_name=True)

    service_url: str = Field("http://127.0.0.1:8321", description="Where the service is.")
    broker_url: str | None = Field(
        None, description="Redis of the doorbell; without it the worker finds jobs by polling."
    )
    worker_key: str | None = Field(None, repr=False, description="Key of scope `worker`.")
    worker_key_file: Path | None = Field(
        None, description="File with the key; read again whenever the service refuses it."
    )
    worker_dir: Path = Field(Path("data/worker"), description="Identity, job folders and caches.")
    slots: int | None = Field(
        None, ge=1, le=64, description="Attempts at once; one per GPU, or one on a CPU, if unset."
    )
    threads: int | None = Field(
        None, ge=1, description="CPU threads of one trainer; cores divided by slots if unset."
    )
    cpu_ranks: int = Field(
        1,
        ge=1,
        le=64,
        description="Processes that a training on the CPU is shared by, as it is by several GPUs; "
        "for tests: one process with all threads is faster.",
    )
    cache_bytes: int = Field(50 * GIB, ge=0, description="Budget of the data-set cache.")
    data_memory_bytes: int | None = Field(
        None,
        ge=0,
        description="What a job's images may take of the host's memory; half of what is free, "
        "within the control group, if unset. Larger sets are read from the disk, ahead of the "
        "steps.",
    )
    decoded_bytes: int = Field(
        DECODED_BYTES,
        ge=0,
        description="What all decoded image sets may take of the disk. A set that alone is larger, "
        "or than the disk has room for, is decoded while it trains.",
    )
    dataset_mirrors: str = Field(
        "",
        description="Addresses, separated by commas, where the files of MNIST, Fashion-MNIST and "
        "CIFAR-10 are looked for first, as <address>/<set>/<file>.",
    )
    models_dir: Path | None = Field(
        None,
        description="Pretrained models that users put there, a folder each, or org/name as on the "
        "hub; `models` in the worker's folder if unset.",
    )
    kernel_cache_dir: Path | None = Field(
        None, description="Compiled and tuned kernels; in the worker's folder if unset."
    )
    tensorboard_dir: Path | None = Field(
        None,
        description="Event files of all jobs for TensorBoard, a folder each, written while they "
        "train and kept; only among a job's files if unset.",
    )
    mlflow_tracking_uri: str | None = Field(
        None,
        repr=False,
        description="Address of an MLflow server that is told of every job; it may hold a user and "
        "a password. None if unset.",
    )
    mlflow_token: str | None = Field(None, repr=False, description="Bearer token for it.")
    mlflow_experiment: str = Field("redkiln", description="Experiment that runs belong to there.")
    poll_seconds: float | None = Field(
        None, gt=0, description="How often to ask for work; what the service says if unset."
    )
    metrics_bind: str | None = Field(
        None,
        pattern=r"^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):\d{1,5}$",
        description="Address and port where Prometheus reads this worker's metrics; nowhere if "
        "unset.",
    )
    stall_seconds: float = Field(
        600.0, gt=0, description="A trainer that writes no event for so long is killed."
    )
    cancel_grace_seconds: float = Field(
        30.0, ge=0, description="From SIGTERM to SIGKILL when a job is cancelled."
    )
    shutdown_grace_seconds: float = Field(
        60.0, ge=0, description="From SIGTERM to SIGKILL when the worker shuts down."
    )
    keep_jobs_hours: float = Field(
        72.0, ge=0, description="How long folders of attempts that were never reported are kept."
    )
    spare: bool = Field(True, description="Keep a warm trainer waiting in each slot.")
    script_confinement: ScriptConfinement = Field(
        "any",
        description="Scripts are refused where the kernel cannot keep them from files of others "
        "(`files`: no Landlock), or from signals to their processes, too (`signals`: older than "
        "Linux 6.12); `any` runs them and says what is missing.",
    )
    script_cache_bytes: int = Field(
        SCRIPT_CACHE_BYTES,
        ge=0,
        description="What environments that scripts' requirements were installed into may take of "
        "the disk, and the same again data sets that were unpacked for them; those that were not "
        "used for longest go first, and none that is in use.",
    )
    trainer_command: list[str] = Field(
        default_factory=lambda: [sys.executable, "-m", "worker.trainer"],
        description="JSON list; gets a job directory, or --spare.",
    )
    script_command: list[str] = Field(
        default_factory=lambda: [sys.executable, "-m", "worker.script"],
        description="Runs a script; gets a job directory, or --spare.",
    )
    export_command: list[str] = Field(
        default_factory=lambda: [sys.executable, "-m", "worker.export"],
        description="JSON list; gets a job directory.",
    )
    inventory_command: list[str] = Field(
        default_factory=lambda: [sys.executable, "-m", "worker.trainer.inventory"],
        description="JSON list; prints what torch sees as JSON.",
    )
    selftest_command: list[str] = Field(
        default_factory=lambda: [sys.executable, "-m", "worker.hardware.selftest"],
        description="JSON list; tests the GPU that it sees and prints its report as JSON.",
    )
    override_probe_command: list[str] = Field(
        default_factory=lambda: [sys.executable, "-m", "worker.hardware.selftest.probe"],
        description="JSON list; computes a little on the GPU that it sees and prints how wrong it "
        "is: what an override of its target has to pass.",
    )
    gpus: str = Field(
        "auto",
        description="GPUs to train on: `auto`, `all`, or PCI addresses and uuids, with commas.",
    )
    gpu_wait_seconds: float = Field(
        600.0,
        ge=0,
        description="How long a job waits for other programs to give a GPU's memory back.",
    )
    lock_dir: Path = Field(
        Path("/tmp/redkiln-gpus"),  # noqa: S108  # it must be the same for every worker
        description="Leases of GPUs and their health; one folder for all workers of a host.",
    )
    topology_dir: Path = Field(
        Path("/sys/class/kfd/kfd/topology"), description="Where the driver tells of its GPUs."
    )
    drm_dir: Path = Field(Path("/sys/class/drm"), description="Where it tells of their cards.")
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @field_validator("service_url")
    @classmethod
    def _drop_last_slash(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError("REDKILN_SERVICE_URL must start with http:// or https://")
        return value.rstrip("/")

    @field_validator("mlflow_tracking_uri")
    @classmethod
    def _want_http(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("REDKILN_MLFLOW_TRACKING_URI must start with http:// or https://")
        return value

    def load_key(self) -> str | None:
        """The worker key, from its file if one is named; None while there is none yet."""
        if self.worker_key_file is None:
            return self.worker_key
        try:
            return self.worker_key_file.read_text().strip() or None
        except FileNotFoundError:
            return None  # the service writes it at its first start, perhaps after ours

    def list_dataset_mirrors(self) -> list[str]:
        """The addresses in `dataset_mirrors`."""
        return [
            part.strip().rstrip("/") for part in self.dataset_mirrors.split(",") if part.strip()
        ]

    @property
    def jobs_dir(self) -> Path:
        """One folder an attempt."""
        return self.worker_dir / "jobs"

    @property
    def datasets_dir(self) -> Path:
        """Fetched data sets, by digest."""
        return self.worker_dir / "cache" / "datasets"

    @property
    def public_datasets_dir(self) -> Path:
        """Files of public data sets, fetched or put there by hand, a folder a set."""
        return self.worker_dir / "datasets"

    @property
    def selftest_dir(self) -> Path:
        """What self-tests of GPUs found, by GPU and versions."""
        return self.worker_dir / "cache" / "selftest"

    @property
    def trainer_cache_dir(self) -> Path:
        """Decoded data sets and rehearsal verdicts; the trainer's own."""
        return self.worker_dir / "cache" / "trainer"

    @property
    def resolved_models_dir(self) -> Path:
        """Pretrained models that users put there."""
        return self.models_dir or self.worker_dir / "models"

    @property
    def resolved_kernel_cache_dir(self) -> Path:
        """Compiled kernels, a folder per arch, releases and slot."""
        return self.kernel_cache_dir or self.worker_dir / "cache" / "kernels"

    @property
    def alive_path(self) -> Path:
        """Touched at every round of polling; a health check looks at its age."""
        return self.worker_dir / "alive"

    def prepare_dirs(self) -> None:
        """Make the worker's folders.

        Raises:
            OSError: a folder cannot be made.
        """
        self.worker_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (self.jobs_dir, self.datasets_dir, self.trainer_cache_dir):
            path.mkdir(parents=True, exist_ok=True)
