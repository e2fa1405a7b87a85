"""Settings of the worker: read once at the entry point and passed down."""

import sys
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from worker.jobdir import (
    DECODED_BYTES,
    SCRIPT_CACHE_BYTES,
    OrderLimits,
    ScriptConfinement,
    ScriptIsolation,
)

GIB = 1024**3


class WorkerSettings(BaseSettings):
    """The worker's settings; every field is an environment variable `REDKILN_<FIELD>`."""

    model_config = SettingsConfigDict(env_prefix="REDKILN_", populate_by_name=True)

    service_url: str = Field("http://127.0.0.1:8321", description="Address of the service.")
    broker_url: str | None = Field(
        None, description="Redis of the doorbell; without it the worker finds jobs by polling."
    )
    worker_key: str | None = Field(None, repr=False, description="Key of scope `worker`.")
    worker_key_file: Path | None = Field(
        None, description="File with the key; read again when the service refuses the key."
    )
    worker_dir: Path = Field(Path("data/worker"), description="Identity, job folders and caches.")
    slots: int | None = Field(
        None, ge=1, le=64, description="Attempts at once; if unset, one per GPU, or one on a CPU."
    )
    threads: int | None = Field(
        None, ge=1, description="CPU threads of one trainer; if unset, cores divided by slots."
    )
    cpu_ranks: int = Field(
        1,
        ge=1,
        le=64,
        description="Processes that share a training on the CPU, as several GPUs would; only for "
        "tests, because one process with all threads is faster.",
    )
    worker_min_free_bytes: int = Field(
        256 * 1024**2,
        ge=0,
        description="Free disk space of the worker's folder below which it takes no job.",
    )
    cache_bytes: int = Field(50 * GIB, ge=0, description="Budget of the data-set cache.")
    data_memory_bytes: int | None = Field(
        None,
        ge=0,
        description="Most host memory for a job's images; if unset, half of what is free in the "
        "control group. Larger sets are read from disk ahead of the steps.",
    )
    decoded_bytes: int = Field(
        DECODED_BYTES,
        ge=0,
        description="Most disk space for all decoded image sets. A set that is larger than this or "
        "than the free disk space is decoded during training.",
    )
    dataset_mirrors: str = Field(
        "",
        description="Addresses, separated by commas, to try first for the files of MNIST, "
        "Fashion-MNIST and CIFAR-10, as <address>/<set>/<file>.",
    )
    models_dir: Path | None = Field(
        None,
        description="Folder of your pretrained models, each in its own folder, or as org/name like "
        "on the hub; if unset, `models` in the worker's folder.",
    )
    kernel_cache_dir: Path | None = Field(
        None, description="Compiled and tuned kernels; if unset, in the worker's folder."
    )
    tensorboard_dir: Path | None = Field(
        None,
        description="Folder for TensorBoard event files of all jobs, one folder each, written "
        "during training and kept; if unset, they are only among a job's files.",
    )
    mlflow_tracking_uri: str | None = Field(
        None,
        repr=False,
        description="Address of an MLflow server to report every job to; may include a user and a "
        "password. No server if unset.",
    )
    mlflow_token: str | None = Field(None, repr=False, description="Bearer token for MLflow.")
    mlflow_experiment: str = Field("redkiln", description="MLflow experiment of the runs.")
    poll_seconds: float | None = Field(
        None, gt=0, description="How often to ask for work; if unset, the service decides."
    )
    metrics_bind: str | None = Field(
        None,
        pattern=r"^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):\d{1,5}$",
        description="Address and port where Prometheus reads this worker's metrics; if unset, "
        "metrics are not served.",
    )
    stall_seconds: float = Field(
        600.0,
        gt=0,
        description="A trainer that writes no event for this long is killed; new files of compiled "
        "kernels count as events.",
    )
    cancel_grace_seconds: float = Field(
        30.0, ge=0, description="Time from SIGTERM to SIGKILL when a job is cancelled."
    )
    shutdown_grace_seconds: float = Field(
        60.0, ge=0, description="Time from SIGTERM to SIGKILL when the worker shuts down."
    )
    keep_jobs_hours: float = Field(
        72.0, ge=0, description="How long folders of unreported attempts are kept, three at most."
    )
    spare: bool = Field(
        True,
        description="Keep a warm trainer and a warm exporter waiting in each slot. The exporter "
        "takes about 470 MB of memory, except while a job has more than 5 minutes left.",
    )
    script_confinement: ScriptConfinement = Field(
        "any",
        description="Refuse scripts if the kernel cannot protect others' files from them "
        "(`files`: no Landlock), or their processes from signals too (`signals`: older than Linux "
        "6.12); `any` runs them and reports what is missing.",
    )
    script_isolation: ScriptIsolation = Field(
        "auto",
        description="Run scripts in separate namespaces (bubblewrap): `auto` where the worker "
        "can make them, `required` refuses scripts elsewhere, `off` never.",
    )
    script_cache_bytes: int = Field(
        SCRIPT_CACHE_BYTES,
        ge=0,
        description="Most disk space for environments with scripts' requirements, and the same "
        "again for their unpacked data sets; the least recently used are removed first, and none "
        "in use.",
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
        description="JSON list; gets a job directory, or --spare.",
    )
    inventory_command: list[str] = Field(
        default_factory=lambda: [sys.executable, "-m", "worker.trainer.inventory"],
        description="JSON list; prints what torch can use as JSON.",
    )
    selftest_command: list[str] = Field(
        default_factory=lambda: [sys.executable, "-m", "worker.hardware.selftest"],
        description="JSON list; tests the GPU that it sees and prints its report as JSON.",
    )
    override_probe_command: list[str] = Field(
        default_factory=lambda: [sys.executable, "-m", "worker.hardware.selftest.probe"],
        description="JSON list; computes a little on the GPU that it sees and prints the error, "
        "which an override of its target must keep small.",
    )
    gpus: str = Field(
        "auto",
        description="GPUs to train on: `auto`, `all`, or PCI addresses and uuids, comma-separated.",
    )
    vulkan: Literal["auto", "software", "off"] = Field(
        "auto",
        description="Vulkan devices for jobs with `resources.engine: tinygrad`: GPUs (`auto`), "
        "also software on the CPU (`software`), or none (`off`).",
    )
    opencl: Literal["auto", "software", "off"] = Field(
        "auto",
        description="OpenCL devices for the same jobs, on GPUs that Vulkan does not list: GPUs "
        "(`auto`), also software on the CPU (`software`), or none (`off`).",
    )
    gpu_wait_seconds: float = Field(
        600.0,
        ge=0,
        description="How long a job waits for other programs to free a GPU's memory.",
    )
    lock_dir: Path = Field(
        Path("/tmp/redkiln-gpus"),  # noqa: S108  # it must be the same for every worker
        description="Leases of GPUs and their health; the same folder for all workers of a host.",
    )
    topology_dir: Path = Field(
        Path("/sys/class/kfd/kfd/topology"), description="The driver's description of its GPUs."
    )
    drm_dir: Path = Field(Path("/sys/class/drm"), description="The driver's list of cards.")
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
        """Return the worker key, from its file if one is set; None while it does not exist."""
        if self.worker_key_file is None:
            return self.worker_key
        try:
            return self.worker_key_file.read_text().strip() or None
        except FileNotFoundError:
            return None  # the service writes it when it first starts, which may be later

    def list_dataset_mirrors(self) -> list[str]:
        """Return the addresses in `dataset_mirrors`."""
        return [
            part.strip().rstrip("/") for part in self.dataset_mirrors.split(",") if part.strip()
        ]

    @property
    def jobs_dir(self) -> Path:
        """Folder with one folder per attempt."""
        return self.worker_dir / "jobs"

    @property
    def datasets_dir(self) -> Path:
        """Downloaded data sets, by digest."""
        return self.worker_dir / "cache" / "datasets"

    @property
    def public_datasets_dir(self) -> Path:
        """Files of public data sets, downloaded or put there by hand, one folder per set."""
        return self.worker_dir / "datasets"

    @property
    def selftest_dir(self) -> Path:
        """Results of GPU self-tests, by GPU and versions."""
        return self.worker_dir / "cache" / "selftest"

    @property
    def order_limits(self) -> OrderLimits:
        """Limits of this host that every job gets."""
        return OrderLimits(
            data_memory_bytes=self.data_memory_bytes,
            decoded_bytes=self.decoded_bytes,
            script_cache_bytes=self.script_cache_bytes,
        )

    @property
    def trainer_cache_dir(self) -> Path:
        """The trainer's cache: decoded data sets and rehearsal verdicts."""
        return self.worker_dir / "cache" / "trainer"

    @property
    def resolved_models_dir(self) -> Path:
        """Folder of the user's pretrained models."""
        return self.models_dir or self.worker_dir / "models"

    @property
    def resolved_kernel_cache_dir(self) -> Path:
        """Compiled kernels, one folder per arch, releases and slot."""
        return self.kernel_cache_dir or self.worker_dir / "cache" / "kernels"

    @property
    def alive_path(self) -> Path:
        """File touched at every round of polling; a health check reads its age."""
        return self.worker_dir / "alive"

    def prepare_dirs(self) -> None:
        """Create the worker's folders.

        Raises:
            OSError: a folder cannot be created.
        """
        self.worker_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (self.jobs_dir, self.datasets_dir, self.trainer_cache_dir):
            path.mkdir(parents=True, exist_ok=True)
