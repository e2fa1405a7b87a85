"""The parts of a worker, which exist once its folder is locked and its hardware is known."""

import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from worker.agent.attempt.resources import SlotResources
from worker.agent.children.children import Spawner
from worker.agent.children.launch import SOURCE_DIR, Launcher
from worker.agent.client import ServiceClient
from worker.agent.data.cache import DatasetCache
from worker.agent.doctor import DoctorRounds
from worker.agent.exposition import WorkerState, serve_metrics
from worker.agent.gpus.engine_pool import EnginePool
from worker.agent.gpus.engine_trial import try_device
from worker.agent.gpus.gpu_checks import GpuChecks, SelfTest
from worker.agent.gpus.patching import Patching
from worker.agent.gpus.pool import GpuPool
from worker.agent.gpus.sensors import find_host_gpus
from worker.agent.gpus.worker_gpus import WorkerGpus
from worker.agent.inventory import (
    Inventory,
    SlotPlan,
    add_engines,
    ask_inventory,
    count_cores,
    find_gpus,
    plan_slots,
)
from worker.agent.registration import Registration
from worker.agent.slots import SlotPool
from worker.agent.status import StatusReporter
from worker.agent.workdir import (
    drop_old_jobs,
    end_old_processes,
    load_worker_id,
    lock_worker_dir,
)
from worker.settings import WorkerSettings


@dataclass(frozen=True)
class Parts:
    """The parts of a worker. `start` starts their threads, `close` ends them.

    Attributes:
        engine_pool: GPUs for other engines than torch; None if the worker has none.
        starts: Starts each thread, in this order.
        closing: Ends the threads and closes what is open, the newest first.
    """

    worker_id: str
    client: ServiceClient
    gpus: WorkerGpus
    engine_pool: EnginePool | None
    slots: SlotPool
    registration: Registration
    status: StatusReporter
    starts: Sequence[Callable[[], None]]
    closing: ExitStack

    def start(self, *, metrics_bind: str | None) -> None:
        """Start the threads, and serve the metrics if they have an address.

        Raises:
            OSError: The address of the metrics is in use.
        """
        if metrics_bind is not None:
            self.closing.callback(serve_metrics(metrics_bind, self._describe))
        for start in self.starts:
            start()

    def close(self) -> None:
        """End the spares and the threads, and unlock the worker's folder."""
        for slot in self.slots.slots:
            slot.resources.launcher.close()
        self.closing.close()

    def _describe(self) -> WorkerState:
        return WorkerState(
            worker_id=self.worker_id,
            gpus=self.gpus.list_states(),
            slots=len(self.slots.slots),
            busy_slots=self.slots.num_busy,
            sampling_seconds=self.gpus.read_cost(),
        )


def build_parts(
    settings: WorkerSettings,
    *,
    fail: Callable[[str], None],
    on_gpu_change: Callable[[], None],
    is_out_of_time: Callable[[], bool],
) -> Parts:
    """Lock the worker's folder, detect the hardware and build every part.

    Args:
        settings: The worker's settings.
        fail: Receives the reason why the worker cannot continue.
        on_gpu_change: Called when a GPU was included or excluded.
        is_out_of_time: Whether the worker is shutting down and has waited long enough for the
            service.

    Raises:
        FolderInUse: Another agent uses the folder.
        InventoryFailed: torch could not report its version and devices.
        OSError: The folder cannot be created or written.
    """
    with ExitStack() as closing:
        settings.prepare_dirs()
        closing.enter_context(lock_worker_dir(settings.worker_dir))
        worker_id, boot_id = load_worker_id(settings.worker_dir), secrets.token_hex(16)
        end_old_processes(settings.jobs_dir)
        drop_old_jobs(settings.jobs_dir, max_age_seconds=settings.keep_jobs_hours * 3600)
        client = ServiceClient(settings.service_url, load_key=settings.load_key)
        closing.callback(client.close)
        spawner = Spawner()
        inventory = ask_inventory(settings, spawner, source_dir=SOURCE_DIR)
        inventory = add_engines(inventory, settings, opens=partial(try_device, spawner))
        gpus, plans = _plan_hardware(settings, inventory, worker_id=worker_id, closing=closing)
        engine_pool = _open_engine_pool(settings, inventory, worker_id=worker_id, closing=closing)
        slots = _build_slots(settings, plans, spawner, inventory, gpus, is_out_of_time)
        status = StatusReporter(
            client,
            worker_id=worker_id,
            boot_id=boot_id,
            read_gpus=gpus.list_states,
            read_cost=gpus.read_cost,
            keep_free=partial(_keep_free, gpus.pool, on_gpu_change),
        )
        closing.callback(status.halt)
        doctor = _build_doctor(settings, spawner, inventory, status)
        closing.callback(doctor.halt)
        starts = [gpus.host.start, status.start, doctor.start]
        if gpus.pool is not None:
            tests = _build_self_tests(slots, settings, spawner, inventory)
            checks = GpuChecks(gpus.pool, tests, on_change=on_gpu_change)
            closing.callback(checks.stop)
            starts.append(checks.start)
        return Parts(
            worker_id,
            client,
            gpus,
            engine_pool,
            SlotPool(slots),
            Registration(
                client,
                settings,
                worker_id=worker_id,
                boot_id=boot_id,
                inventory=inventory,
                fail=fail,
            ),
            status,
            starts,
            closing.pop_all(),
        )


def _build_slots(
    settings: WorkerSettings,
    plans: Sequence[SlotPlan],
    spawner: Spawner,
    inventory: Inventory,
    gpus: WorkerGpus,
    is_out_of_time: Callable[[], bool],
) -> list[SlotResources]:
    cache = DatasetCache(settings.datasets_dir, budget_bytes=settings.cache_bytes)
    return [
        SlotResources(
            settings,
            plan,
            Launcher(settings, spawner, slot=plan, patching=Patching(settings, inventory)),
            cache,
            is_out_of_time,
            gpus.read_of_attempt,
        )
        for plan in plans
    ]


def _build_doctor(
    settings: WorkerSettings, spawner: Spawner, inventory: Inventory, status: StatusReporter
) -> DoctorRounds:
    return DoctorRounds(
        spawner,
        worker_dir=settings.worker_dir.resolve(),
        inventory=inventory,
        report=status.report_doctor,
        source_dir=SOURCE_DIR,
    )


def _keep_free(
    pool: GpuPool | None, on_gpu_change: Callable[[], None], keys: Sequence[str]
) -> bool:
    """Keep GPUs free for their owner; ask for jobs again when one was given back."""
    has_changed = pool is not None and pool.keep_free(keys)
    if has_changed:
        on_gpu_change()
    return has_changed


def _plan_hardware(
    settings: WorkerSettings, inventory: Inventory, *, worker_id: str, closing: ExitStack
) -> tuple[WorkerGpus, list[SlotPlan]]:
    host = find_host_gpus(settings)
    closing.callback(host.stop)
    known = find_gpus(inventory, host.facts, wanted=settings.gpus)
    pool = GpuPool(known, settings, worker_id=worker_id) if known else None
    if pool is not None:
        closing.callback(pool.close)
    plans = plan_slots(
        inventory,
        [gpu for gpu in known if gpu.excluded is None],
        num_cores=count_cores(),
        wanted=settings.slots,
        threads=settings.threads,
    )
    return WorkerGpus(host, pool), plans


def _open_engine_pool(
    settings: WorkerSettings, inventory: Inventory, *, worker_id: str, closing: ExitStack
) -> EnginePool | None:
    if not any(place.keys for place in inventory.engine_places):
        return None
    pool = EnginePool(settings.lock_dir, worker_id=worker_id)
    closing.callback(pool.close)
    return pool


def _build_self_tests(
    all_resources: Sequence[SlotResources],
    settings: WorkerSettings,
    spawner: Spawner,
    inventory: Inventory,
) -> dict[str, SelfTest]:
    if not settings.selftest_command:
        return {}
    return {
        resources.slot.gpu.key: SelfTest(
            settings,
            spawner,
            SOURCE_DIR,
            resources.launcher.trainer_environment,
            inventory.torch_version,
            inventory.rocm_version,
        )
        for resources in all_resources
        if resources.slot.gpu is not None
    }
