"""What a slot of the worker lends to its attempts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from redkiln.views.hardware import GpuTelemetry
from worker.agent.children.launch import Launcher
from worker.agent.data.cache import DatasetCache
from worker.agent.inventory import SlotPlan
from worker.settings import WorkerSettings


@dataclass(frozen=True)
class SlotResources:
    """What a slot uses for every attempt.

    Attributes:
        is_out_of_time: Whether the worker is shutting down and has waited long enough for the
            service.
        read_gpus_of: The newest readings of the GPUs that an attempt holds.
    """

    settings: WorkerSettings
    slot: SlotPlan
    launcher: Launcher
    cache: DatasetCache
    is_out_of_time: Callable[[], bool]
    read_gpus_of: Callable[[str], Sequence[GpuTelemetry | None]] = lambda _: ()
