"""Workers, and the GPUs that torch can open on them, as the API shows them."""

from datetime import datetime

from pydantic import BaseModel, Field

from redkiln.views.hardware import DoctorVerdict, GpuExclusion


class GpuView(BaseModel):
    """A GPU as torch names it on its worker.

    Attributes:
        pci_address: Key of the GPU in `GET /v1/gpus`; None if torch does not report it.
        excluded: Why the GPU is excluded from training; None if it can be used.
        has_bf16: Whether jobs may train in bf16 on it; None if the worker does not report it.
    """

    index: int
    name: str
    arch: str | None = None
    memory_bytes: int | None = None
    pci_address: str | None = None
    excluded: GpuExclusion | None = None
    has_bf16: bool | None = None


class EngineDevice(BaseModel):
    """A device that trains with another engine than torch.

    Attributes:
        engine: Value of `resources.engine` that uses it.
        driver: Vulkan or OpenCL driver with its version; None without one.
        device: The engine's name of it, such as `CL:1`, which jobs report; None if it is not used.
        slots: Numbers of the worker's slots whose jobs use it, from 1.
        excluded: Why it is not used; None if it can be.
        is_software: Whether it computes on the CPU.
    """

    engine: str = Field(max_length=64)
    name: str = Field(max_length=300)
    driver: str | None = Field(None, max_length=300)
    pci_address: str | None = Field(None, max_length=64)
    excluded: str | None = Field(None, max_length=500)
    device: str | None = Field(None, max_length=64)
    slots: list[int] = Field(default_factory=list, max_length=1024)
    is_software: bool = False


class WorkerView(BaseModel):
    """A worker, and whether it is live.

    Attributes:
        lag_seconds: Time since its last message.
        doctor_verdict: Worst verdict of its doctor; None if it has not reported one.
        packages: Optional packages that it has for jobs, and `compiler` where torch.compile works;
            None if it does not report them.
        engine_devices: Devices for other engines than torch; None if it does not report them.
    """

    id: str
    hostname: str
    is_live: bool
    lag_seconds: float
    version: str
    torch_version: str | None = None
    arch_list: list[str] = Field(default_factory=list)
    gpus: list[GpuView] = Field(default_factory=list)
    packages: list[str] | None = None
    engine_devices: list[EngineDevice] | None = None
    slots: int
    attempts: list[str] = Field(default_factory=list)
    doctor_verdict: DoctorVerdict | None = None
    last_seen_at: datetime
