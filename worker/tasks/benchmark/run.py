"""The task `benchmark`: measures the device and writes the results."""

import os
from collections.abc import Mapping

import torch

from redkiln.events import EventKind
from redkiln.spec.job_spec import JobSpec
from redkiln.status import Phase
from redkiln.tasks.benchmark import BenchmarkSpec
from redkiln.views.benchmark import FILE_NAME, BenchmarkResult
from redkiln.views.hardware import GpuFacts
from redkiln.views.job import Progress
from worker.export.card import figures
from worker.export.outputs import Outputs
from worker.hardware.benchmark.advice import best_rates
from worker.hardware.benchmark.card import render_card
from worker.hardware.benchmark.device import ask_device, describe_machine, find_gpus
from worker.hardware.benchmark.picture import draw_benchmark
from worker.hardware.benchmark.plan import describe_limits, resolve_measure
from worker.hardware.benchmark.run import BenchmarkSetup
from worker.hardware.benchmark.session import Listener, Session, run_session
from worker.jobdir import JobDir, Order
from worker.process.event_log import EventLog
from worker.tasks.benchmark.contests import find_kernel_cache_dir, list_contests, save_trials
from worker.tasks.benchmark.key_tests import build_resnet18
from worker.trainer.devices import describe_environment

PICTURE = "benchmark.png"


def run(
    job_dir: JobDir, order: Order, spec: JobSpec, *, device: torch.device, event_log: EventLog
) -> None:
    """Measure, and write `benchmark.json`, its picture and its report."""
    assert isinstance(spec, BenchmarkSpec)
    # Environment of the processes of a comparison; like this process's, it has no credentials.
    environ = {**os.environ, "REDKILN_PARENT_PID": str(os.getpid())}
    figures.use_quiet_backend(order.paths.cache_dir)
    num_gpus = min(spec.resources.gpus, torch.cuda.device_count()) if device.type == "cuda" else 0
    gpus = find_gpus(device, num_gpus=num_gpus)
    reporter = _ProgressReporter(event_log)
    session, resolved = _prepare(spec, order, device, gpus, environ, reporter)
    event_log.write(
        EventKind.RESOLVED,
        spec=resolved.model_dump(mode="json"),
        environment=describe_environment(device, threads=order.threads, patches=order.patches),
    )
    for note in session.notes:
        event_log.message(note)
    event_log.enter(Phase.MEASURING)
    result = run_session(session, reporter.listener())
    reporter.report_done()
    _write_files(result, order, Outputs(job_dir))
    _keep_trials(result, order, event_log)
    for item in result.recommendations:
        event_log.message(item.text)
    event_log.write(
        EventKind.RESULT,
        metrics=best_rates(result),
        timings={name: round(value, 3) for name, value in event_log.settle().items()},
    )


def _prepare(
    spec: BenchmarkSpec,
    order: Order,
    device: torch.device,
    gpus: list[GpuFacts],
    environ: Mapping[str, str],
    reporter: "_ProgressReporter",
) -> tuple[Session, BenchmarkSpec]:
    facts = ask_device(device, precisions=spec.measure.precisions, num_gpus=len(gpus))
    measure = resolve_measure(spec.measure, facts)
    bench = BenchmarkSetup(
        device=device,
        build_model=build_resnet18,
        gpu=gpus[0] if gpus else None,
        rounds=measure.samples,
        on_round=reporter.repeat_progress,
    )
    session = Session(
        measure=measure,
        facts=facts,
        machine=describe_machine(device, gpus=gpus),
        bench=bench,
        notes=describe_limits(spec.measure, facts),
        contests=list_contests(
            measure,
            facts,
            device=device,
            threads=order.threads,
            outcomes=order.patches,
            environ=environ,
            is_hip=torch.version.hip is not None,
            tunings_dir=find_kernel_cache_dir(order.patches) or order.paths.cache_dir,
        ),
        environ=environ,
    )
    return session, spec.model_copy(update={"measure": measure})


class _ProgressReporter:
    """Reports a benchmark's progress in events."""

    def __init__(self, event_log: EventLog) -> None:
        self._event_log = event_log
        self._now = Progress()

    def listener(self) -> Listener:
        """Return the callbacks for the session."""
        return Listener(begin=self._begin, alive=self.repeat_progress, say=self._event_log.message)

    def repeat_progress(self) -> None:
        """Repeat the current progress if it is due."""
        if self._event_log.is_progress_due():
            self._event_log.progress(self._now)

    def report_done(self) -> None:
        """Report that all parts are measured."""
        steps = self._now.steps
        self._event_log.progress(Progress(step=steps, steps=steps, fraction=1.0))

    def _begin(self, title: str, number: int, total: int, seconds_left: float) -> None:
        self._now = Progress(
            step=number,
            steps=total,
            fraction=number / total,
            eta_seconds=seconds_left,
            activity=title,
        )
        self._event_log.progress(self._now)


def _keep_trials(result: BenchmarkResult, order: Order, event_log: EventLog) -> None:
    folder = find_kernel_cache_dir(order.patches)
    if folder is None:
        return
    try:
        kept = save_trials(result, folder)
    except OSError as error:
        message = f"the comparisons could not be saved, so later jobs cannot use them: {error}"
        event_log.warning("trials_not_kept", message)
        return
    if kept:
        event_log.message(f"later jobs on this GPU use the comparison of {' and '.join(kept)}")


def _write_files(result: BenchmarkResult, order: Order, outputs: Outputs) -> None:
    outputs.path(FILE_NAME).write_text(result.model_dump_json(indent=1, by_alias=True) + "\n")
    outputs.add(FILE_NAME)
    draw_benchmark(result, outputs.path(PICTURE), title=order.job_name)
    outputs.add(PICTURE)
    outputs.path("report.md").write_text(render_card(result, title=order.job_name))
    outputs.add("report.md")
