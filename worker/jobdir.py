"""The job directory: all that passes between the agent, the trainer and the export child.

A task that exports no model has no export child: its trainer fills `out/` and writes the RESULT
event itself.

The agent makes the folder and writes `order.json`; whoever runs in it gets environment, this
folder, and SIGTERM when it shall checkpoint and leave; it answers with events, files and an exit
status. Nothing in it is a credential.

    order.json         what to do (Order)
    events.jsonl       redkiln.events, one line an event; the agent ships it
    trainer.log        stdout and stderr
    checkpoints/       step-<12 digits>.safetensors with its .json manifest beside it
    trained.json       what the trainer left for the export child (Trained)
    ranks/             where several ranks meet, and what those beside the first died of
    out/               files that become artifacts, listed in out/artifacts.json
    extra/             further files that become artifacts, whatever the outcome (EXTRAS)
    preview/           newest picture or table of sample predictions, named by PROGRESS events
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from redkiln.protocol import ArtifactKind
from redkiln.views.hardware import PatchOutcome

DECODED_BYTES = 20 * 2**30
"""Of decoded data sets on a worker, where nothing else is set."""
SCRIPT_CACHE_BYTES = 50 * 2**30
"""Of what scripts have installed or unpacked, each, where nothing else is set."""
ScriptConfinement = Literal["any", "files", "signals"]
"""What a kernel must be able to keep scripts from: nothing, or files of others, or their processes,
too."""
LEASES_VARIABLE = "REDKILN_TRAINER_LEASES"
"""Numbers of inherited descriptors, with commas: the leases of the GPUs. Whoever starts further
processes on them passes these on, so that the leases end with the last of them."""
EXIT_DONE = 0
EXIT_FAILED = 3
"""The process wrote a FAILURE event and left."""
EXIT_STOPPED = 75
"""SIGTERM was heard, the newest state is checkpointed (EX_TEMPFAIL)."""


class LocalDataset(BaseModel):
    """Where the data set lies on this host.

    Attributes:
        path: the archive's file or the folder; None for a table, and for a built-in set.
        index_path: a `redkiln.datasets.DatasetIndex` as JSON, or the Parquet file that is all of a
            table (`redkiln.tables`); None for a built-in set.
        fingerprint: digest that the decode cache is keyed by.
    """

    name: str
    kind: Literal["archive", "folder", "builtin"]
    path: str | None = None
    index_path: str | None = None
    fingerprint: str


class Order(BaseModel):
    """What the trainer and the export child shall do.

    Attributes:
        dataset: None where the task reads none.
        device: torch device string (`cpu`, `cuda:0`).
        threads: intra-op CPU threads; a resumed run repeats exactly only with the same number.
        num_gpus: GPUs that the run has; its process sees these alone.
        num_ranks: processes that train together, one a GPU; each takes its share of a batch.
        gpu_keys: what the leases of the GPUs are named by.
        memory_limit_bytes: what it may take of each one's memory; None: all that there is.
        denied: what its GPUs were found to compute wrongly (`bf16`, `fused_attention`), with the
            numbers; the job does without.
        resume: name of the checkpoint (below `checkpoints/`) to go on from; None starts anew.
        initial: checkpoint of another job whose weights training starts from (its artifact).
        bundle_path: code of a script, a tar; None where it has none.
        script_confinement: what the kernel must be able to keep a script from.
        script_cache_bytes: what the kept environments of scripts may take of the disk, and the
            same again their unpacked data sets.
        sensor_dirs: where the driver's files on its GPUs are, of those that have any.
        cache_dir: decoded data sets and rehearsal verdicts, shared by the host's jobs.
        data_memory_bytes: what the job's images may take of the host's memory; None: half of what
            is free.
        decoded_bytes: what all decoded sets may take of the disk.
        models_dir: where users put pretrained models; below the cache if unset.
        kernel_cache_dir: compiled and tuned kernels of its GPU; None where nothing is kept.
        progress_seconds: longest time between two progress events while steps are made.
        patches: what the agent decided; variables are set, switches of torch are the trainer's.
    """

    job_id: str
    job_name: str
    attempt_id: str
    spec: dict[str, Any]
    dataset: LocalDataset | None = None
    device: str
    threads: int
    num_gpus: int = 0
    num_ranks: int = 1
    gpu_keys: list[str] = Field(default_factory=list)
    memory_limit_bytes: int | None = None
    denied: dict[str, str] = Field(default_factory=dict)
    resume: str | None = None
    initial: str | None = None
    bundle_path: str | None = None
    script_confinement: ScriptConfinement = "any"
    script_cache_bytes: int = SCRIPT_CACHE_BYTES
    sensor_dirs: list[str] = Field(default_factory=list)
    cache_dir: str
    data_memory_bytes: int | None = None
    decoded_bytes: int = DECODED_BYTES
    models_dir: str | None = None
    kernel_cache_dir: str | None = None
    progress_seconds: float = 1.0
    patches: list[PatchOutcome] = Field(default_factory=list)

    @property
    def resolved_models_dir(self) -> Path:
        """Where users put pretrained models."""
        return Path(self.models_dir or Path(self.cache_dir) / "models")

    @property
    def required_dataset(self) -> LocalDataset:
        """The data set, for a task that cannot do without one."""
        assert self.dataset is not None, "this task reads a data set"
        return self.dataset


class OutputFile(BaseModel):
    """One file and what it is (fields of `redkiln.protocol.ArtifactCommit`).

    Attributes:
        path: where it lies below the job directory; `out/<name>` if unset.
    """

    name: str
    kind: ArtifactKind
    media_type: str
    verified: bool | None = None
    path: str | None = None


EXTRAS: tuple[OutputFile, ...] = (
    OutputFile(name="trace.json.gz", kind="profile", media_type="application/gzip"),
    OutputFile(name="profile.md", kind="profile", media_type="text/markdown"),
    OutputFile(name="events.out.tfevents", kind="metrics", media_type="application/octet-stream"),
)
"""What may lie in `extra/`: a profile of some steps, and the metrics as TensorBoard reads them."""


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
        """Where a listed file lies."""
        return self.root / output.path if output.path else self.out_dir / output.name

    def load_order(self) -> Order:
        """Read `order.json`."""
        return Order.model_validate_json(self.order_path.read_bytes())

    def load_outputs(self) -> list[OutputFile]:
        """The files to publish, as the last child listed them; none when it never got there."""
        if not self.outputs_path.exists():
            return []
        return [OutputFile(**item) for item in json.loads(self.outputs_path.read_text())]
