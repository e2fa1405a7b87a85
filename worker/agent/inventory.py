"""What this worker can run on: torch's report from a short-lived child, and slots for it."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import structlog
from pydantic import BaseModel, Field, ValidationError

from redkiln.views.hardware import GpuFacts
from redkiln.views.worker import EngineDevice, GpuView
from worker.agent.children.children import Spawner
from worker.agent.children.environment import build_child_environment, show_every_gpu
from worker.agent.gpus.engine_devices import (
    ENGINE,
    describe_devices,
    find_obstacle,
    join_devices,
    offer_engines,
)
from worker.agent.gpus.engine_places import (
    EnginePlace,
    Found,
    Opens,
    count_gpus,
    place_of_slot,
    plan_places,
)
from worker.agent.gpus.host_gpus import HostGpu, join_gpus, show_gpus
from worker.hardware.facts.opencl import find_opencl
from worker.hardware.facts.vulkan import find_vulkan
from worker.hardware.kernel_cache import build_cache_key
from worker.hardware.masks import HIDE_GPUS
from worker.settings import WorkerSettings

log = structlog.get_logger(__name__)

INVENTORY_SECONDS = 300.0
"""A cold import of a ROCm build from a slow disk takes over a minute."""


class InventoryFailed(Exception):  # noqa: N818  # the name states the fault
    """The child that imports torch did not report an inventory."""


class Inventory(BaseModel):
    """What `worker.trainer.inventory` prints, and the devices that the agent adds.

    Attributes:
        engine_places: Devices for jobs of another engine than torch, one for each slot in turn.
    """

    torch_version: str | None = None
    hip_version: str | None = None
    rocm_version: str | None = None
    cuda_version: str | None = None
    arch_list: list[str] = Field(default_factory=list)
    gpus: list[GpuView] = Field(default_factory=list)
    packages: list[str] | None = None
    engine_devices: list[EngineDevice] | None = None
    engine_places: list[EnginePlace] = Field(default_factory=list, exclude=True)


@dataclass(frozen=True)
class SlotPlan:
    """The resources of one slot.

    Attributes:
        device: Torch's name of the slot's device within its child.
        gpu: The slot's GPU, if it has one.
        device_environment: Variables that show the child only that device.
        cache_key: Folder name of its compiled kernels.
        engine: Device that jobs of another engine than torch open; None without one.
    """

    index: int
    kind: Literal["gpu", "cpu"]
    device: str
    threads: int
    gpu: HostGpu | None = None
    device_environment: Mapping[str, str] = field(default_factory=dict)
    cache_key: str = "default"
    engine: EnginePlace | None = None


def ask_inventory(settings: WorkerSettings, spawner: Spawner, *, source_dir: Path) -> Inventory:
    """Run the inventory child.

    Raises:
        InventoryFailed: The child failed, or its output cannot be parsed.
    """
    environment = build_child_environment(os.environ, device=show_every_gpu(os.environ), threads=1)
    child = spawner.spawn(
        settings.inventory_command,
        environment=environment,
        working_dir=source_dir,
        stdout=subprocess.PIPE,
        stderr=None,
    )
    assert child.stdout is not None, "stdout is a pipe"
    # Its output fits into the pipe, so the child can exit before the pipe is read.
    if not child.wait(INVENTORY_SECONDS):
        child.reap()
        raise InventoryFailed(f"torch was not imported within {INVENTORY_SECONDS:.0f} s")
    output = child.stdout.read()
    status = child.reap()
    if status != 0:
        raise InventoryFailed(
            f"{' '.join(settings.inventory_command)} exited with status {status}; "
            "see its output above, and check that torch is installed"
        )
    try:
        return Inventory.model_validate(json.loads(output))
    except (ValueError, ValidationError) as error:
        raise InventoryFailed(f"unreadable inventory: {output[:500]!r}") from error


def add_engines(
    inventory: Inventory,
    settings: WorkerSettings,
    *,
    opens: Opens,
    find: Callable[[], Sequence[Found]] = find_vulkan,
    find_others: Callable[[], Sequence[Found]] = find_opencl,
) -> Inventory:
    """Return the inventory with the devices for other engines than torch.

    Args:
        inventory: Packages and devices of torch.
        settings: The worker's settings.
        opens: Tries to open a device; asked only if there are several of Vulkan.
        find: Finds Vulkan devices, and cards without one.
        find_others: Finds OpenCL devices.
    """
    found = join_devices(
        find() if settings.vulkan != "off" else (),
        find_others() if settings.opencl != "off" else (),
    )
    obstacle = find_obstacle(
        has_packages=ENGINE in (inventory.packages or ()), has_torch_gpu=bool(inventory.gpus)
    )
    places: list[EnginePlace] = []
    if obstacle is None:
        places = plan_places(found, vulkan=settings.vulkan, opencl=settings.opencl, opens=opens)
    num_slots = settings.slots or count_gpus(places) or 1
    devices = describe_devices(found, places, num_slots=num_slots, obstacle=obstacle)
    for device in devices:
        log.info("engine device", **device.model_dump(exclude_none=True))
    added = {"engine_devices": devices, "engine_places": places[:num_slots]}
    offered = offer_engines(inventory.packages, devices)
    return inventory.model_copy(update={**added, "packages": offered})


def find_gpus(inventory: Inventory, facts: Sequence[GpuFacts], *, wanted: str) -> list[HostGpu]:
    """Return all GPUs of this host, usable or not.

    Args:
        inventory: Torch's GPUs in this process's environment.
        facts: GPUs in the driver's files.
        wanted: Value of the setting REDKILN_GPUS.
    """
    hip = is_hip(inventory)
    gpus = join_gpus(inventory.gpus, facts, wanted=wanted, is_hip=hip, environ=os.environ)
    for gpu in gpus:
        if gpu.excluded is not None:
            log.warning("gpu excluded", gpu=gpu.key, reason=gpu.excluded.message)
    return gpus


def plan_slots(
    inventory: Inventory,
    gpus: Sequence[HostGpu],
    *,
    num_cores: int,
    wanted: int | None,
    threads: int | None,
) -> list[SlotPlan]:
    """Plan one slot for each GPU, or `wanted` CPU slots on a host without GPUs.

    Without GPUs of torch, the default is a slot for each GPU of another engine, at least one.

    Args:
        inventory: Torch's version and devices.
        gpus: GPUs that may be used.
        num_cores: CPU cores to divide among the slots.
        wanted: Fewer slots than GPUs, or more than one slot on a CPU.
        threads: CPU threads of each slot; None: derived from `num_cores`.
    """
    others = count_gpus(inventory.engine_places)
    num_slots = min(wanted or len(gpus), len(gpus)) or wanted or others or 1
    each = threads or max(1, num_cores // num_slots)
    if not gpus:
        return [
            SlotPlan(
                index,
                "cpu",
                "cpu",
                each,
                device_environment=HIDE_GPUS,
                engine=place_of_slot(inventory.engine_places, index),
                cache_key=_key(inventory, None, index),
            )
            for index in range(num_slots)
        ]
    return [
        SlotPlan(
            index,
            "gpu",
            "cuda:0",  # the only one that the child sees
            each,
            gpu=gpu,
            device_environment=show_gpus([gpu]),
            cache_key=_key(inventory, gpu.arch, index),
        )
        for index, gpu in enumerate(gpus[:num_slots])
    ]


def is_hip(inventory: Inventory) -> bool:
    """Return whether torch is a ROCm build, judging by its architecture names."""
    names = [*inventory.arch_list, *(gpu.arch or "" for gpu in inventory.gpus)]
    return any(name.startswith("gfx") for name in names)


def _key(inventory: Inventory, arch: str | None, slot: int) -> str:
    return build_cache_key(
        arch=arch,
        torch_version=inventory.torch_version,
        rocm_version=inventory.rocm_version,
        slot=slot,
    )


def count_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))
