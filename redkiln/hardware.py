"""What workers know of their GPUs, as everyone sees it: facts, telemetry, state, patches, checks.

A fact that a machine does not tell is None, never guessed. Units are in the names; ratios lie in
[0, 1]. The worker makes these, the service keeps and shows them, the client reads them.
"""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

LinkKind = Literal["cpu_fabric", "pcie", "xgmi", "unknown"]
DoctorVerdict = Literal["ok", "slow", "blocked"]


class HardwareModel(BaseModel):
    """A part of a report; unknown fields are ignored, so that either side may be newer."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class GpuLink(HardwareModel):
    """One direction of a connection from a GPU to another node of the KFD topology.

    Attributes:
        to_node: number of the other KFD node.
        to_pci_address: of the other GPU; None when it is a CPU.
        hops: steps over the fabric; None when the driver does not tell.
        weight: the driver's own cost of the link.
        max_bandwidth_bytes_per_second: None where the driver says 0.
        has_atomics_32: whether 32-bit atomics cross the link; None when its flags are not filled.
        has_atomics_64: the same of 64-bit ones.
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
    """One reading of a GPU's sensors; each is None where its file is missing or malformed."""

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
    """One GPU, or one partition of it, by what files say of it.

    Attributes:
        node: number of its KFD node; None when only its card is known.
        gfx: LLVM target (`gfx1100`).
        is_gfx_inferred: the target was looked up by PCI id, the driver did not tell it.
        name: of the product, by PCI id; None when the table does not have it.
        cu_count: compute units (`simd_count / simd_per_cu`).
        wgp_count: work-group processors, what HIP counts on RDNA; None on wave64 parts.
        wave_size: lanes of a wavefront, 32 or 64.
        vram_bytes: by the memory banks; on an APU it is what GTT may take, and approximate.
        is_memory_approximate: whether `vram_bytes` is shared with the host.
        pci_address: `0000:03:00.0`.
        unique_id: serial number, shared by partitions; 0 on APUs.
        uuid: what `ROCR_VISIBLE_DEVICES` takes; None when it is not unique on this host.
        render_minor: number of `/dev/dri/renderD<minor>`.
        is_apu: whether it shares the host's memory; None when unknown.
        num_xcc: accelerator dies that act as this GPU.
        partition: place among the partitions of its card, counted from 0; None when it is whole.
        is_accessible: False when it exists and is not passed to this process (EPERM), or its driver
            does not offer it for computing.
        peak_tflops: computed, by type (`fp32`, `fp16`, `bf16`); empty when a factor is unknown.
        memory_bandwidth_bytes_per_second: of the product, by PCI id; None for a partition.
        drives_display: whether a screen is connected to its card; None when its card is unknown.
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


PASSING_EXCLUSIONS = frozenset({"memory_held", "self_test_running", "faulted", "hung"})
"""Codes of reasons that end by themselves, or with a test that is run soon: a job may wait."""
UNWANTED = "not_wanted"
"""Code of the reason that is its owner's choice: to a job such a GPU is none."""


class GpuExclusion(HardwareModel):
    """Why a GPU is not trained on.

    Attributes:
        code: machine-readable (`apu_beside_discrete`, `self_test_failed`, `memory_held`, ...).
        message: what was seen, with its numbers, and what to do.
    """

    code: str
    message: str


class GpuState(HardwareModel):
    """A GPU of a worker: what it is, what it does, and why it is left alone if it is.

    Attributes:
        key: what its lease is named by: its PCI address, with the partition if it is one.
        attempt_id: the attempt that holds it, if one of this worker does.
        excluded: None when it can be used.
    """

    key: str
    facts: GpuFacts
    attempt_id: str | None = None
    excluded: GpuExclusion | None = None


class WorkerGpu(GpuState):
    """A GPU of a live worker, as `GET /v1/gpus` lists it.

    Attributes:
        id: the worker's id and the GPU's key.
        job_id: of the job whose attempt holds it.
        telemetry: None when the worker has none, or has not told any for a while: never an old one.
    """

    id: str
    worker_id: str
    hostname: str
    job_id: str | None = None
    telemetry: GpuTelemetry | None = None


class PatchOutcome(HardwareModel):
    """What became of one patch.

    Attributes:
        outcome: `user` when a setting of the user's own was left as it is.
        why: the facts that decided.
        environment: variables that it set.
        settings: switches of torch that it set, by their full names.
        user: variables that it is about, as the user had set them.
    """

    name: str
    outcome: Literal["applied", "skipped", "refused", "user"]
    why: str
    environment: dict[str, str] = Field(default_factory=dict)
    settings: dict[str, str] = Field(default_factory=dict)
    user: dict[str, str] = Field(default_factory=dict)
    versions: dict[str, str | None] = Field(default_factory=dict)


class DoctorCheck(HardwareModel):
    """One thing that the doctor looked at.

    Attributes:
        row: number in the table of known failures (docs/doctor.md).
        verdict: `unknown` when the evidence cannot be had from here.
        severity: what it means when bad: nothing runs, or slowly, or neither.
        fix: the exact thing to do; empty when all is well.
    """

    id: str
    row: int
    title: str
    verdict: Literal["ok", "bad", "unknown"]
    severity: Literal["blocks", "slows", "note"]
    evidence: str = ""
    cause: str = ""
    fix: str = ""
    details: dict[str, Any] = Field(default_factory=dict)


class DoctorReport(HardwareModel):
    """All checks of one machine: first what blocks, then what slows."""

    at: datetime
    hostname: str
    versions: dict[str, str | None] = Field(default_factory=dict)
    checks: list[DoctorCheck] = Field(default_factory=list)

    @property
    def is_blocked(self) -> bool:
        """Whether something keeps this machine from training on a GPU."""
        return any(c.verdict == "bad" and c.severity == "blocks" for c in self.checks)

    @property
    def verdict(self) -> DoctorVerdict:
        """The worst of all checks."""
        if self.is_blocked:
            return "blocked"
        is_slow = any(c.verdict == "bad" and c.severity == "slows" for c in self.checks)
        return "slow" if is_slow else "ok"


SelfTestArea = Literal[
    "gemm",
    "gemm_tall_skinny",
    "linear",
    "convolution_forward",
    "convolution_backward_input",
    "convolution_backward_weight",
    "attention_forward",
    "attention_backward",
    "normalization_forward",
    "normalization_backward",
    "sgd",
]
Precision = Literal["fp32", "fp16", "bf16"]


class SelfTestResult(HardwareModel):
    """One comparison of what the device computed with float64 on the CPU.

    Attributes:
        library: what was told to compute it (`rocblas`, `hipblaslt`, `flash`); None where torch
            cannot be told.
        reduction_length: terms of the longest sum, on which rounding depends.
        max_abs_error: largest difference; None when a number is not finite.
        max_rel_error: the same, relative to the root mean square of what is right.
        tolerance: what `max_rel_error` may be.
        zeros_ratio: of the device's numbers, where it is largest; wrong kernels leave zeros.
        error: words of an exception, where the operation could not run at all.
    """

    area: SelfTestArea
    precision: Precision
    library: str | None = None
    shape: str
    reduction_length: int
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    tolerance: float
    zeros_ratio: float = 0.0
    nan_count: int = 0
    verdict: Literal["passed", "failed", "error"]
    seconds: float
    error: str = ""


class SelfTestReport(HardwareModel):
    """Whether one device, under one set of versions, computes right numbers.

    Attributes:
        device: torch's name of it.
        settings: variables that change which kernels run, as the test ran under them.
        status: `error` when the test could not run; `cause` says why.
    """

    at: datetime
    device: str
    name: str | None = None
    gfx: str | None = None
    pci_address: str | None = None
    versions: dict[str, str | None] = Field(default_factory=dict)
    settings: dict[str, str] = Field(default_factory=dict)
    is_quick: bool = False
    status: Literal["passed", "failed", "error"]
    cause: str = ""
    results: list[SelfTestResult] = Field(default_factory=list)
    seconds: float = 0.0

    @property
    def bad(self) -> list[SelfTestResult]:
        """What did not pass."""
        return [result for result in self.results if result.verdict != "passed"]
