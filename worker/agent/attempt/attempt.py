"""One attempt from its claim to its end: prepare, train, export, finish."""

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from redkiln.events import Event, EventKind, EventWriter
from redkiln.failure import JobFailure
from redkiln.protocol import ClaimResponse
from redkiln.spec.job_spec import JobSpec
from redkiln.status import Phase
from redkiln.tasks.export import ExportSpec
from redkiln.views.hardware import PatchOutcome
from worker.agent.attempt.artifacts import refuse_list
from worker.agent.attempt.checkpoints import CheckpointUploader, fetch_checkpoints, name_file
from worker.agent.attempt.claimed_files import fetch_bundle, fetch_initial, fetch_manifest
from worker.agent.attempt.classify import Death, explain_os_error, explain_stop, judge
from worker.agent.attempt.dead import record_death
from worker.agent.attempt.early_files import EarlyFiles
from worker.agent.attempt.finish import Closing, GaveUp, decide_outcome
from worker.agent.attempt.first_search import describe_first_search
from worker.agent.attempt.host_warnings import list_host_warnings
from worker.agent.attempt.processes import Processes
from worker.agent.attempt.recorder import Recorder
from worker.agent.attempt.reporter import URGENT, Reporter
from worker.agent.attempt.resources import SlotResources
from worker.agent.attempt.spool import EventSpool, read_tail
from worker.agent.attempt.watch import Limits, Watch
from worker.agent.children.children import Child
from worker.agent.client import AttemptClient, ServiceError, Superseded
from worker.agent.data.datasets import DatasetMissing, DatasetSource
from worker.agent.gpus.pool import GpuAllocation, GpuBusy
from worker.agent.inventory import count_cores
from worker.agent.observers.observers import Observers
from worker.agent.stopping import Stopped, StopReason, StopSignal
from worker.hardware.facts.kernel_log import KernelLog
from worker.hardware.facts.software import read_software
from worker.hardware.health.deaths import about_gpus
from worker.jobdir import JobDir, Order
from worker.process.failed import TrainingFailed
from worker.process.oom import count_oom_kills

log = structlog.get_logger(__name__)

DRAIN_SECONDS = 30.0
"""How long a stopped script's last files may take to upload."""


@dataclass
class Attempt:
    """An attempt on this worker. `run` is called once, in the thread that claimed it."""

    claim: ClaimResponse
    spec: JobSpec
    client: AttemptClient
    resources: SlotResources
    stop: StopSignal
    allocation: GpuAllocation = field(default_factory=GpuAllocation)
    _jobdir: JobDir = field(init=False)
    _recorder: Recorder = field(init=False)
    _reporter: Reporter = field(init=False)
    _spool: EventSpool = field(init=False)
    _uploader: CheckpointUploader = field(init=False)
    _observers: Observers = field(init=False)
    _early_files: EarlyFiles = field(init=False)
    _started_at: float = field(default_factory=time.monotonic)
    _last_step: int | None = None
    _announced: JobFailure | None = None
    _has_result: bool = False
    _has_rehearsed: bool = False
    _processes: Processes = field(init=False)
    _memory_limit_bytes: int | None = None

    def __post_init__(self) -> None:
        self._jobdir = JobDir(self.resources.settings.jobs_dir.resolve() / self.claim.attempt_id)
        self._recorder = Recorder(num_cores=count_cores())
        self._reporter = Reporter(
            self.client,
            self._jobdir,
            self.stop,
            report_seconds=self.claim.report_seconds,
            series=self._recorder.series,
        )
        self._uploader = CheckpointUploader(
            self.client,
            self._jobdir.checkpoints_dir,
            self.stop,
            self._reporter.wait_reported,
        )
        self._observers = Observers(
            self.claim, self.spec, self.client, self._jobdir, self.stop, self.resources.settings
        )
        self._early_files = EarlyFiles(self.client, self._jobdir, self.stop)
        self._processes = Processes(
            self.spec,
            self._jobdir,
            self.resources.launcher,
            self.allocation,
            self.resources.settings.script_confinement,
            self.resources.settings.script_isolation,
            self._log_message,
            lambda code, message: self._write(EventKind.WARNING, code=code, message=message),
        )

    def run(self) -> str:
        """Run the attempt to its end and report it.

        Returns:
            The attempt's outcome, or `superseded` or `unreported`.
        """
        try:
            outcome = self._close(self._work())
        except (Superseded, Stopped):
            outcome = "superseded"
        except (GaveUp, ServiceError) as error:
            log.error("the attempt's end was not reported", error=str(error))
            return "unreported"
        finally:
            self._recorder.halt()
            self._early_files.halt()
            self._uploader.halt()
            self._observers.halt()
            self._reporter.halt()
            if self._has_rehearsed:  # the exporter that waits has worked for this job
                self.resources.launcher.end_export_spare()
            self.allocation.close()
        shutil.rmtree(self._jobdir.root, ignore_errors=True)
        return outcome

    def _work(self) -> JobFailure | None:
        try:
            with ExitStack() as held:
                self._prepare(held)
                failure = self._train()
                return self._export() if failure is None and self.spec.exports else failure
        except Stopped:
            return explain_stop(self.stop.reason)
        except (DatasetMissing, GpuBusy) as error:
            return error.failure
        except Superseded:
            raise
        except Exception as error:  # noqa: BLE001  # a fault of the worker, not of the job
            known, log_path = explain_os_error(error), self._jobdir.log_path
            return known or self._observers.guard.explain(error, log_path=log_path)

    def _prepare(self, held: ExitStack) -> None:
        # The service answers a claim whose answer was lost with the same attempt again.
        shutil.rmtree(self._jobdir.root, ignore_errors=True)
        self._jobdir.out_dir.mkdir(parents=True)
        self._write(EventKind.PHASE, phase=Phase.PREPARING)
        self._reporter.start()
        self._recorder.start()
        self._uploader.start()
        self._observers.start()
        if not self._is_export:
            self._memory_limit_bytes = self.allocation.wait_until_usable(
                say=self._report_phase,
                stop=self.stop,
                patience_seconds=self.resources.settings.gpu_wait_seconds,
            )
        dataset = None
        if self.claim.dataset is not None:
            source = DatasetSource(
                self.client,
                self.resources.cache,
                self.stop,
                self._log_message,
                public_dir=self.resources.settings.public_datasets_dir,
                mirrors=self.resources.settings.list_dataset_mirrors(),
            )
            dataset = source.open(self.claim.dataset, until=held, as_sent=self._processes.is_script)
        resume = self._fetch_checkpoints()
        engine = self.resources.slot.engine
        order = Order(
            job_id=self.claim.job_id,
            job_name=self.claim.job_name,
            attempt_id=self.claim.attempt_id,
            spec=self.claim.spec,
            dataset=dataset,
            device=self.resources.slot.device,
            threads=self.resources.slot.threads,
            engine_device=None if engine is None else engine.device,
            num_gpus=len(self.allocation.gpus),
            num_ranks=self._count_ranks(),
            gpu_keys=[gpu.key for gpu in self.allocation.gpus],
            memory_limit_bytes=self._memory_limit_bytes,
            denied=self.allocation.denied,
            resume=resume,
            is_finishing=self.claim.is_finishing,
            initial=fetch_initial(
                self.claim, self._jobdir, self.client, self.stop, warn=self._warn_of_checkpoint
            ),
            manifest=fetch_manifest(self.claim, self._jobdir, self.client, self.stop),
            bundle_path=fetch_bundle(self.claim, self._jobdir, self.client, self.stop),
            paths=self._processes.order_paths,
            limits=self.resources.settings.order_limits,
            patches=self._decide_patches(),
            sensor_dirs=self.allocation.sensor_dirs,
            script_confinement=self.resources.settings.script_confinement,
            script_isolation=self.resources.settings.script_isolation,
            control_group=self._processes.control_group,
        )
        self._observers.resume(resume)
        self._jobdir.order_path.write_text(order.model_dump_json())
        self.stop.check()

    def _decide_patches(self) -> list[PatchOutcome]:
        launcher = self.resources.launcher
        patches = launcher.decide_patches(
            self.allocation.gpus, has_fixed_shapes=None if self._processes.is_script else True
        )
        text = describe_first_search(
            patches,
            cache_dir=launcher.kernel_cache_dir,
            stall_seconds=self.resources.settings.stall_seconds,
        )
        if text is not None:
            self._log_message(text)
        warnings = list_host_warnings(
            [gpu.facts for gpu in self.allocation.gpus],
            kernel_release=read_software().kernel_release,
            drm_dir=self.resources.settings.drm_dir,
        )
        for code, message in warnings:
            self._write(EventKind.WARNING, code=code, message=message)
        return patches

    def _fetch_checkpoints(self) -> str | None:
        """Fetch the checkpoint to resume from; report it if it is not the one that was offered."""
        offered = self.claim.checkpoints
        taken = fetch_checkpoints(
            offered,
            self._jobdir.checkpoints_dir,
            client=self.client,
            stop=self.stop,
            warn=self._warn_of_checkpoint,
        )
        lost = [ref for ref in offered if taken is None or ref.step > taken.step]
        if lost:
            self._uploader.distrusted = {ref.sha256 for ref in lost}
            step = 0 if taken is None else taken.step
            self._write(EventKind.METRICS, points={}, undone_after=step)
        if offered and taken is None:
            text = "No checkpoint could be fetched, so the job restarts from the beginning."
            self._write(EventKind.WARNING, code="restarted", message=text)
        return None if taken is None else name_file(taken)

    def _train(self) -> JobFailure | None:
        if self._is_export:
            self.allocation.close()  # the export runs on the CPU
            return None
        try:
            failure = self._run_child(self._processes.start_trainer, is_complete=self._is_trained)
        except TrainingFailed as error:
            failure = error.failure
        finally:
            self._processes.end_trainer()
        self.allocation.finish(failure.code if failure else None)
        return failure

    def _count_ranks(self) -> int:
        # A task that trains nothing starts the processes that it needs itself.
        if not self.spec.exports:
            return 1
        return len(self.allocation.gpus) or self.resources.settings.cpu_ranks

    @property
    def _end_at(self) -> float | None:
        duration = self.claim.max_duration_seconds
        return None if duration is None else self._started_at + duration

    @property
    def _is_export(self) -> bool:
        return isinstance(self.spec, ExportSpec)

    def _is_trained(self) -> bool:
        """Whether the trainer has finished: it left what the export needs, or the job's result."""
        return self._jobdir.trained_path.exists() if self.spec.exports else self._has_result

    def _export(self) -> JobFailure | None:
        self.stop.check(least=StopReason.SHUTDOWN)
        # Files are listed as they are written, so the list does not show that it is complete.
        try:
            return self._run_child(
                self._processes.start_export, is_complete=lambda: self._has_result
            )
        finally:
            self._processes.end_strays()

    def _run_child(
        self, start: Callable[[], Child], *, is_complete: Callable[[], bool]
    ) -> JobFailure | None:
        # Before the child starts: it may write or die before this thread runs again.
        self._spool = EventSpool.at_end(self._jobdir.events_path)
        oom_kills = count_oom_kills()
        # An attempt without GPUs does not look at the kernel's messages about them.
        kernel_log = KernelLog() if self.allocation.gpus else None
        child = start()
        read_gpus = partial(self.resources.read_gpus_of, self.claim.attempt_id)
        self._recorder.follow(child.pid, read_gpus)
        try:
            limits = Limits.of(self.spec, self.resources.settings, end_at=self._end_at)
            watch = Watch(child, self._spool, self.stop, limits, self._on_event)
            status = watch.until_exit()
        finally:
            self._recorder.rest()
            child.reap()
        death = Death(
            status=status,
            is_complete=is_complete(),
            announced=self._announced,
            stopped_for=self.stop.reason,
            tail=read_tail(self._jobdir.log_path),
            oom_kills=count_oom_kills() - oom_kills,
            kernel_log=self._read_kernel_log(kernel_log),
            last_step=self._last_step,
        )
        failure = judge(death)
        folder = self.resources.settings.worker_dir
        record_death(death, failure, attempt_id=self.claim.attempt_id, worker_dir=folder)
        log.info("child ended", status=status, failure=failure and failure.code)
        if failure is None and status != 0:
            text = f"A process exited with status {status} after it had finished its work."
            self._write(EventKind.WARNING, code="crash_on_exit", message=text)
        return failure

    def _read_kernel_log(self, log: KernelLog | None) -> tuple[str, ...]:
        if log is None:
            return ()
        ours = [address for gpu in self.allocation.gpus if (address := gpu.facts.pci_address)]
        with log:
            return tuple(about_gpus(log.read(), pci_addresses=ours))

    def _on_event(self, event: Event) -> None:
        self._observers.on_event(event)
        if event.kind == EventKind.CHECKPOINT:
            self._uploader.offer(event.data, events_end=self._spool.offset)
        elif event.kind == EventKind.ARTIFACT:
            self._early_files.offer(event.data)
        elif event.kind == EventKind.FAILURE:
            self._announced = JobFailure.model_validate(event.data)
        elif event.kind == EventKind.RESULT:
            self._has_result = True
        elif event.kind == EventKind.PROGRESS:
            self._last_step = event.data.get("step", self._last_step)
            self._processes.follow(event.data)
        elif event.kind == EventKind.PHASE:
            self._has_rehearsed |= event.data.get("phase") == Phase.REHEARSING
        if event.kind in URGENT:
            self._reporter.hurry()

    def _close(self, failure: JobFailure | None) -> str:
        self.stop.check(least=StopReason.SUPERSEDED)
        if self.stop.reason is not None:
            # Every other outcome uploads all files again.
            self._early_files.drain(timeout_seconds=DRAIN_SECONDS)
        self._early_files.halt()
        failure = failure or refuse_list(self._jobdir)
        if failure is None:
            self._write(EventKind.PHASE, phase=Phase.UPLOADING)
        for warned in self._observers.finish(decide_outcome(failure, self.stop.reason)):
            self._write(EventKind.WARNING, code=warned.code, message=warned.message)
        closing = Closing(
            self.client,
            self._jobdir,
            self.stop,
            self._reporter,
            self._uploader,
            self.resources.is_out_of_time,
        )
        outcome = closing.finish(failure)
        self._observers.correct(outcome)
        return outcome

    def _report_phase(self, text: str) -> None:
        self._write(EventKind.PHASE, phase=Phase.PREPARING, text=text)
        self._log_message(text)

    def _log_message(self, text: str) -> None:
        self._write(EventKind.MESSAGE, text=text)

    def _warn_of_checkpoint(self, text: str) -> None:
        self._write(EventKind.WARNING, code="checkpoint_unavailable", message=text)

    def _write(self, kind: EventKind, **data: Any) -> None:
        # Only while no child runs: opening the writer truncates a dead child's unfinished line.
        try:
            with EventWriter(self._jobdir.events_path) as events:
                events.write(kind, **data)
        except OSError as error:
            log.error("event lost", kind=kind, error=str(error))
            return
        self._reporter.hurry()
