"""GPUs of workers as the API shows them: facts, telemetry, state, patches, checks.

A fact that a machine does not report is None, never guessed. Names end with their units; ratios
are in [0, 1]. Workers create these values, the service stores and serves them, clients read them.
"""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

LinkKind = Literal["cpu_fabric", "pcie", "xgmi", "unknown"]
DoctorVerdict = Literal["ok", "slow", "blocked"]
Precision = Literal["fp32", "fp16", "bf16"]


class HardwareModel(BaseModel):
    """A part of a report; unknown fields are ignored, so that either side may be newer."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class GpuLink(HardwareModel):
    """One direction of a connection from a GPU to another node of the KFD topology.

    Attributes:
        to_node: Number of the other KFD node.
        to_pci_address: PCI address of the other GPU; None if the node is a CPU.
        hops: Steps over the fabric; None if the driver does not report it.
        weight: Cost of the link as given by the driver.
        max_bandwidth_bytes_per_second: None if the driver reports 0.
        has_atomics_32: Whether 32-bit atomics cross the link; None if its flags are not set.
        has_atomics_64: The same for 64-bit atomics.
    """

    to_node: int
    to_pci_address: str | None = None
    kind: LinkKind = "unknown"
    hops: int | None = None
    weight: int | None = None
    max_bandwidth_bytes_per_second: int | None = None
    has_atomics_32: bool | None = None
    has_atomics_64: bool | None = None


class GpuTelemetry(HardwareModel):
    """One reading of a GPU's sensors; a value is None if its file is missing or malformed."""

    at: datetime | None = None
    busy_ratio: float | None = None
    memory_busy_ratio: float | None = None
    vram_total_bytes: int | None = None
    vram_used_bytes: int | None = None
    gtt_total_bytes: int | None = None
    gtt_used_bytes: int | None = None
    edge_celsius: float | None = None
    junction_celsius: float | None = None
    memory_celsius: float | None = None
    power_watts: float | None = None
    power_cap_watts: float | None = None
    fan_rpm: int | None = None
    core_clock_hz: int | None = None
    memory_clock_hz: int | None = None
    read_seconds: float | None = None


class GpuFacts(HardwareModel):
    """One GPU, or one partition of a GPU, as described by the system's files.

    Attributes:
        node: Number of its KFD node; None if only its card is known.
        gfx: LLVM target (`gfx1100`).
        is_gfx_inferred: Whether the target was looked up by PCI id instead of read from the driver.
        name: Product name by PCI id; None if the table lacks it.
        cu_count: Compute units (`simd_count / simd_per_cu`).
        wgp_count: Work-group processors, which HIP counts on RDNA; None on wave64 parts.
        wave_size: Lanes of a wavefront, 32 or 64.
        vram_bytes: Size of the memory banks. On an APU: the most that GTT may take, approximately.
        is_memory_approximate: Whether `vram_bytes` is shared with the host.
        pci_address: `0000:03:00.0`.
        unique_id: Serial number, shared by partitions; 0 on APUs.
        uuid: Value for `ROCR_VISIBLE_DEVICES`; None if it is not unique on this host.
        render_minor: Number in `/dev/dri/renderD<minor>`.
        is_apu: Whether it shares the host's memory; None if unknown.
        num_xcc: Accelerator dies that act as this GPU.
        partition: Index among the partitions of its card, from 0; None if it is a whole card.
        is_accessible: False if it exists but was not passed to this process (EPERM), or if its
            driver does not offer it for computing.
        peak_tflops: Computed peak by data type (`fp32`, `fp16`, `bf16`); empty if a factor is
            unknown.
        memory_bandwidth_bytes_per_second: Product value, by PCI id; None for a partition.
        drives_display: Whether a screen is connected to its card; None if its card is unknown.
    """

    node: int | None = None
    gfx: str | None = None
    is_gfx_inferred: bool = False
    name: str | None = None
    cu_count: int | None = None
    wgp_count: int | None = None
    wave_size: int | None = None
    vram_bytes: int | None = None
    is_memory_approximate: bool = False
    pci_address: str | None = None
    vendor_id: int | None = None
    device_id: int | None = None
    unique_id: int | None = None
    uuid: str | None = None
    render_minor: int | None = None
    card: int | None = None
    is_apu: bool | None = None
    num_xcc: int | None = None
    partition: int | None = None
    hive_id: int | None = None
    max_clock_mhz: int | None = None
    is_accessible: bool = True
    peak_tflops: dict[str, float] = Field(default_factory=dict)
    memory_bandwidth_bytes_per_second: int | None = None
    drives_display: bool | None = None
    links: list[GpuLink] = Field(default_factory=list)
    telemetry: GpuTelemetry | None = None


OWNER_EXCLUSION = "kept_free"
"""Code of the exclusion of a GPU that its owner wants for something else."""
PASSING_EXCLUSIONS = frozenset(
    {"memory_held", "self_test_running", "faulted", "hung", OWNER_EXCLUSION}
)
"""Codes of exclusions that end by themselves or by a test that runs soon: a job may wait."""
UNWANTED = "not_wanted"
"""Code of the exclusion that the owner chose: for jobs, such a GPU does not exist."""


class GpuExclusion(HardwareModel):
    """Why a GPU is excluded from training.

    Attributes:
        code: Machine-readable reason (`apu_beside_discrete`, `self_test_failed`, `memory_held`,
            ...).
        message: Observations with their numbers, and what to do.
    """

    code: str
    message: str


class GpuState(HardwareModel):
    """A GPU of a worker: its facts, telemetry, attempt, and why it is excluded, if it is.

    Attributes:
        key: Name of its lease: its PCI address, or its render node if the card can be divided.
        attempt_id: Attempt of this worker that holds it, if any.
        excluded: None if it can be used.
    """

    key: str
    facts: GpuFacts
    attempt_id: str | None = None
    excluded: GpuExclusion | None = None


class GpuHold(HardwareModel):
    """A GPU that its owner keeps free of jobs.

    Attributes:
        status: `freeing` while its job saves a checkpoint and the worker learns of the wish.
        job_id: Job that was paused for it; it resumes when the GPU is given back.
        expected_seconds: Time from `asked_at` until it is free, by earlier pauses of this job.
    """

    status: Literal["freeing", "free"]
    asked_at: datetime
    job_id: str | None = None
    expected_seconds: float


class WorkerGpu(GpuState):
    """A GPU of a live worker, as listed by `GET /v1/gpus`.

    Attributes:
        id: The worker's id and the GPU's key.
        job_id: Job whose attempt holds it.
        telemetry: None if the worker has none or has not sent any for a while; never outdated.
        hold: None unless its owner keeps it free of jobs.
    """

    id: str
    worker_id: str
    hostname: str
    job_id: str | None = None
    telemetry: GpuTelemetry | None = None
    hold: GpuHold | None = None


class PatchOutcome(HardwareModel):
    """The outcome of one patch.

    Attributes:
        outcome: `user` if the user's own setting was kept.
        why: Facts that decided.
        environment: Variables that the patch set.
        settings: Settings of torch that it changed, by their full names.
        user: Variables that the patch is about, with the values set by the user.
    """

    name: str
    outcome: Literal["applied", "skipped", "refused", "user"]
    why: str
    environment: dict[str, str] = Field(default_factory=dict)
    settings: dict[str, str] = Field(default_factory=dict)
    user: dict[str, str] = Field(default_factory=dict)
    versions: dict[str, str | None] = Field(default_factory=dict)


class Component(HardwareModel):
    """One part of the software below a GPU, with what the GPUs of the machine need.

    Attributes:
        found: Installed version; None if it is missing or unknown.
        needed: Oldest version that fits, or all that do; empty if nothing is known.
        verdict: `too old`, `broken`, `not built` and `missing` have to change.
        source: Source of the need, with the date on which it was read.
    """

    name: str
    found: str | None = None
    needed: str = ""
    verdict: Literal["fits", "may work", "too old", "broken", "not built", "missing", "unknown"] = (
        "unknown"
    )
    why: str = ""
    source: str = ""


class GpuProcess(HardwareModel):
    """A process that has a GPU open; `memory_bytes` is None if the driver does not report it."""

    pid: int
    name: str
    memory_bytes: int | None = None


class GpuReading(HardwareModel):
    """One reading of a GPU, as `nvidia-smi` shows it; a value is None if it cannot be read.

    Attributes:
        memory_bytes: Its memory; on an APU, what it may borrow from the host.
        link_width: Lanes of PCIe in use, on the narrowest link between the GPU and the processor.
        link_max_width: Lanes that this link could have.
        link_speed: Rate of that link, as the kernel prints it (`16.0 GT/s PCIe`).
        has_resizable_bar: Whether the processor can address all of its memory; None on an APU.
        has_ecc: Whether its memory is corrected; None if the driver reports nothing about errors.
        num_errors: Errors that could not be corrected since the driver was loaded.
    """

    name: str
    gfx: str | None = None
    pci_address: str | None = None
    is_apu: bool | None = None
    busy_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_bytes: int | None = None
    celsius: float | None = None
    power_watts: float | None = None
    power_cap_watts: float | None = None
    link_width: int | None = None
    link_max_width: int | None = None
    link_speed: str | None = None
    has_resizable_bar: bool | None = None
    has_ecc: bool | None = None
    num_errors: int | None = None
    processes: list[GpuProcess] = Field(default_factory=list)


class DoctorCheck(HardwareModel):
    """One check of the doctor.

    Attributes:
        row: Number in the table of known failures (docs/doctor.md).
        verdict: `unknown` if the evidence is not available here.
        severity: Meaning of a bad verdict: it blocks jobs, slows them, or neither.
        fix: Exact instructions; empty if nothing is wrong.
        command: A command that can be typed as it is; empty if the fix is not a single command.
        on_host: Whether the command is typed on the host, and not in this container.
        follows: Row that this result only follows from; None if it stands for itself.
        is_hidden: Whether a container cannot see the evidence; the host can.
    """

    id: str
    row: int
    title: str
    verdict: Literal["ok", "bad", "unknown"]
    severity: Literal["blocks", "slows", "note"]
    evidence: str = ""
    cause: str = ""
    fix: str = ""
    command: str = ""
    on_host: bool = False
    follows: int | None = None
    is_hidden: bool = False
    details: dict[str, Any] = Field(default_factory=dict)


FAILED_TRIALS = ("wrong", "crashed", "hung")


class DoctorTrial(HardwareModel):
    """One operation that the doctor tried on a device, in a process with a time limit.

    Attributes:
        verdict: `wrong` if its numbers differ from the CPU's, `hung` if it was ended.
    """

    name: str
    device: str
    verdict: Literal["passed", "wrong", "crashed", "hung", "skipped"]
    detail: str = ""
    seconds: float | None = None
