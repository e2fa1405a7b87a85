"""The job directory: everything that the agent, the trainer and the export child exchange.

A task that exports no model has no export child: its trainer fills `out/` and writes the RESULT
event itself.

The agent creates the folder and writes `order.json`. A process that runs in it receives its
environment, this folder, and SIGTERM when it must save a checkpoint and exit; it answers with
events, files and an exit status. The folder contains no credentials.

    order.json         what to do (Order)
    events.jsonl       redkiln.events, one event per line; the agent sends it to the service
    trainer.log        stdout and stderr
    checkpoints/       step-<12 digits>.safetensors, each with its .json manifest
    trained.json       the trainer's result for the export child (Trained)
    ranks/             where several ranks meet, and failures of ranks other than the first
    out/               files that become artifacts, listed in out/artifacts.json
    extra/             further files that become artifacts, whatever the outcome (EXTRAS)
    preview/           newest picture or table of sample predictions, named by PROGRESS events
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, TypeAdapter

from redkiln.protocol import ArtifactKind, check_artifact_name
from redkiln.views.hardware import PatchOutcome
from worker.beneath import open_beneath

DECODED_BYTES = 20 * 2**30
"""Default size of all decoded data sets on a worker."""
SCRIPT_CACHE_BYTES = 50 * 2**30
"""Default size of the environments installed for scripts, and of their unpacked data sets, each."""
ScriptConfinement = Literal["any", "files", "signals"]
"""What the kernel must be able to protect from scripts: nothing, others' files, or their processes
too."""
ScriptIsolation = Literal["auto", "required", "off"]
"""Whether scripts run in separate namespaces: where possible, always, or never."""
LEASES_VARIABLE = "REDKILN_TRAINER_LEASES"
"""Comma-separated numbers of inherited descriptors: the leases of the GPUs. A process that starts
further processes on these GPUs passes them on, so that the leases end with the last of them."""
EXPORTER_VARIABLE = "REDKILN_TRAINER_EXPORTER"
"""Number of an inherited descriptor: the socket between a trainer and its slot's waiting exporter
(worker.export.remote_rehearsal). Each of the two has one end."""
EXIT_DONE = 0
EXIT_FAILED = 3
"""The process wrote a FAILURE event and exited."""
EXIT_STOPPED = 75
"""Exit status after SIGTERM: what was worth saving is in a checkpoint (EX_TEMPFAIL)."""


class LocalDataset(BaseModel):
    """A data set on this host.

    Attributes:
        path: The archive's file or the folder; None for a table and for a built-in set.
        index_path: A `redkiln.datasets.DatasetIndex` as JSON, or a table's only Parquet file
            (`redkiln.tables`); None for a built-in set.
        root: Allowed folder above a folder that is used in place.
        identity: Device and inode of that folder when the agent checked it.
        fingerprint: Digest used as the key of the decode cache.
        sha256: Digest of what the owner sent; None for a built-in set, and of the index for a
            folder.
        warnings: Doubts about the quality of the data, from its validation.
        leaks: Those about columns that predict the target by themselves.
        num_copies: Test samples that are copies or near copies of training samples.
        num_repeated: Test samples that are copies or near copies of other test samples.
    """

    name: str
    kind: Literal["archive", "folder", "builtin"]
    path: str | None = None
    root: str | None = None
    identity: tuple[int, int] | None = None
    index_path: str | None = None
    fingerprint: str
    sha256: str | None = None
    warnings: list[str] = Field(default_factory=list)
    leaks: list[str] = Field(default_factory=list)
    num_copies: int = 0
    num_repeated: int = 0


class OrderLimits(BaseModel):
    """Limits of the host that hold for every job, from the worker's settings.

    Attributes:
        data_memory_bytes: Most host memory for the job's images; None for half of what is free.
        decoded_bytes: Most disk space for all decoded sets.
        script_cache_bytes: Most disk space for the environments of scripts, and the same again for
            their unpacked data sets.
    """

    data_memory_bytes: int | None = None
    decoded_bytes: int = DECODED_BYTES
    script_cache_bytes: int = SCRIPT_CACHE_BYTES


class OrderPaths(BaseModel):
    """Folders that the host's jobs share.

    Attributes:
        cache_dir: Decoded data sets and rehearsal verdicts.
        models_dir: The user's pretrained models; in the cache if unset.
        kernel_cache_dir: Compiled and tuned kernels of the job's GPU; None if none are kept.
    """

    cache_dir: Path
    models_dir: Path | None = None
    kernel_cache_dir: Path | None = None

    @property
    def resolved_models_dir(self) -> Path:
        """Folder of the user's pretrained models."""
        return self.models_dir or self.cache_dir / "models"


class Order(BaseModel):
    """What the trainer and the export child have to do.

    Attributes:
        dataset: The data set; None if the task reads none.
        device: torch device string (`cpu`, `cuda:0`).
        threads: Intra-op CPU threads; a resumed run repeats exactly only with the same number.
        engine_device: tinygrad's name of its device; None for the one that Vulkan offers.
        num_gpus: Number of GPUs of the run, which are the only ones its process sees.
        num_ranks: Processes that train together, one per GPU; each takes its share of a batch.
        gpu_keys: Names of the GPUs' leases.
        memory_limit_bytes: Most memory to use on each GPU; None for all of it.
        denied: Features its GPUs compute wrongly (`bf16`, `fused_attention`), with measurements;
            the job does not use it.
        resume: Name of the checkpoint (in `checkpoints/`) to resume from; None to start fresh.
        is_finishing: Whether to train no further, and export the best checkpoint.
        initial: Checkpoint of another job that provides the initial weights, or those to export
            (its artifact).
        manifest: Manifest of the job that is exported again; None for other tasks.
        bundle_path: Code of a script, a tar; None if it has none.
        script_confinement: Resources that the kernel must be able to protect from a script.
        script_isolation: Whether a script runs in separate namespaces.
        control_group: Folder of the control group for a user's code; None without a group.
        sensor_dirs: Folders of the driver's files about its GPUs, for those that have any.
        progress_seconds: Longest time between two progress events during training.
        patches: Patches chosen by the agent. Their variables are set; the trainer applies their
            torch settings.
    """

    job_id: str
    job_name: str
    attempt_id: str
    spec: dict[str, Any]
    dataset: LocalDataset | None = None
    device: str
    threads: int
    engine_device: str | None = None
    num_gpus: int = 0
    num_ranks: int = 1
    gpu_keys: list[str] = Field(default_factory=list)
    memory_limit_bytes: int | None = None
    denied: dict[str, str] = Field(default_factory=dict)
    resume: str | None = None
    is_finishing: bool = False
    initial: str | None = None
    manifest: str | None = None
    bundle_path: str | None = None
    script_confinement: ScriptConfinement = "any"
    script_isolation: ScriptIsolation = "auto"
    control_group: Path | None = None
    sensor_dirs: list[str] = Field(default_factory=list)
    paths: OrderPaths
    limits: OrderLimits = Field(default_factory=OrderLimits)
    progress_seconds: float = 1.0
    patches: list[PatchOutcome] = Field(default_factory=list)

    @property
    def required_dataset(self) -> LocalDataset:
        """The data set, for a task that needs one."""
        assert self.dataset is not None, "the order of this task has no data set"
        return self.dataset


class OutputFile(BaseModel):
    """A file and its description (fields of `redkiln.protocol.ArtifactCommit`).

    Attributes:
        path: Path in the job directory; `out/<name>` if unset.
    """

    name: str
    kind: ArtifactKind
    media_type: str
    verified: bool | None = None
    path: str | None = None


class ListRefused(ValueError):  # noqa: N818  # it names an outcome
    """`out/artifacts.json`, which a user's code may write, is not a list of the job's own files."""


OUTPUTS = TypeAdapter(list[OutputFile])
MAX_LIST_BYTES = 16 * 2**20
EXTRAS: tuple[OutputFile, ...] = (
    OutputFile(name="trace.json.gz", kind="profile", media_type="application/gzip"),
    OutputFile(name="profile.md", kind="profile", media_type="text/markdown"),
    OutputFile(name="events.out.tfevents", kind="metrics", media_type="application/octet-stream"),
)
"""Files in `extra/`: a profile of some steps, and the metrics in TensorBoard's format."""


@dataclass(frozen=True)
class JobDir:
    """Paths of a job directory."""

    root: Path

    @property
    def order_path(self) -> Path:
        return self.root / "order.json"

    @property
    def events_path(self) -> Path:
        return self.root / "events.jsonl"

    @property
    def log_path(self) -> Path:
        return self.root / "trainer.log"

    @property
    def checkpoints_dir(self) -> Path:
        return self.root / "checkpoints"

    @property
    def trained_path(self) -> Path:
        return self.root / "trained.json"

    @property
    def ranks_dir(self) -> Path:
        return self.root / "ranks"

    def rank_failure_path(self, rank: int) -> Path:
        return self.ranks_dir / f"failure-{rank}.json"

    @property
    def out_dir(self) -> Path:
        return self.root / "out"

    @property
    def extra_dir(self) -> Path:
        return self.root / "extra"

    @property
    def preview_dir(self) -> Path:
        return self.root / "preview"

    @property
    def outputs_path(self) -> Path:
        return self.out_dir / "artifacts.json"

    def locate(self, output: OutputFile) -> Path:
        """Return the path of a listed file."""
        return self.root / output.path if output.path else self.out_dir / output.name

    def load_order(self) -> Order:
        """Read `order.json`."""
        return Order.model_validate_json(self.order_path.read_bytes())

    def load_outputs(self) -> list[OutputFile]:
        """Return the files to publish, as listed by the last child; empty without a list.

        Raises:
            ListRefused: The list is invalid, or names a file outside the job directory.
        """
        place = self.outputs_path.relative_to(self.root).as_posix()
        try:
            with open_beneath(self.root, place) as file:
                outputs = OUTPUTS.validate_json(file.read(MAX_LIST_BYTES))
            for output in outputs:
                _check_place(output)
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise ListRefused(" ".join(f"{place}: {error}".split())[:2000]) from error
        return outputs


def _check_place(output: OutputFile) -> None:
    check_artifact_name(output.name)
    path = output.path or output.name
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(f"{output.name!r} has the path {path!r}, not one in the job's folder")
