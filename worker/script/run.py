"""A script's job from its code to its results.

The program is a child in this process's group, so SIGTERM reaches both. Everything that it starts
stays a descendant of this process and ends with it. While it runs, the supervisor
(`supervisor.py`) reads its metrics and files, and checks its limits and whether it uses the GPU
that it asked for.
"""

import json
import os
from pathlib import Path

from redkiln.events import EventKind
from redkiln.status import Phase
from redkiln.tasks.script import ScriptSpec
from redkiln.version import __version__
from worker.hardware.patches import merge_settings
from worker.jobdir import JobDir, Order
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.process.lifetime import Stopped, StopSignal
from worker.script.bounds.bounds import (
    Bounds,
    decide_sandbox,
    describe_openness,
    find_gap,
    refuse_gap,
)
from worker.script.bounds.gpu_guard import GpuGuard, read_sensors
from worker.script.bounds.limits import LimitWatch
from worker.script.bounds.processes import (
    adopt_orphans,
    end_descendants,
    hide_memory,
)
from worker.script.heartbeat import Heartbeat
from worker.script.metrics.sources import MetricSources
from worker.script.program.caches import build_caches
from worker.script.program.packages import build_environment
from worker.script.program.paths import ScriptPaths
from worker.script.program.program import Program, build_program, hold_registered, open_data
from worker.script.results.code_files import CodeFiles
from worker.script.results.model_check import ModelCheck
from worker.script.results.models import check_models
from worker.script.results.results import Results
from worker.script.results.snapshots import Snapshots, restore
from worker.script.supervisor import Supervisor
from worker.unpack import MAX_CODE_BYTES, unpack


def run_script(
    job_dir: JobDir, order: Order, spec: ScriptSpec, *, stop: StopSignal, event_log: EventLog
) -> None:
    """Run a job's script; leave its files, their list and a RESULT event in the job directory.

    Raises:
        TrainingFailed: The script could not be prepared, failed, or exceeded its limits.
        Stopped: The job was asked to stop; the script's checkpoints are saved.
    """
    hide_memory()
    adopt_orphans()
    try:
        _run(job_dir, order, spec, stop=stop, event_log=event_log)
    finally:
        # Also what an installer or a check of files has left running.
        end_descendants(grace_seconds=0.0)


def _run(
    job_dir: JobDir, order: Order, spec: ScriptSpec, *, stop: StopSignal, event_log: EventLog
) -> None:
    refuse_gap(order.script_confinement)
    has_sandbox = decide_sandbox(order.script_isolation)
    paths = ScriptPaths(job_dir.root / "script")
    paths.prepare()
    event_log.enter(Phase.PREPARING)
    event_log.write(
        EventKind.RESOLVED, spec=spec.model_dump(mode="json"), environment=_describe(order)
    )
    snapshots = Snapshots(paths.checkpoints_dir, job_dir.checkpoints_dir, event_log)
    program, bounds = _prepare(
        job_dir, order, spec, paths=paths, event_log=event_log, has_sandbox=has_sandbox
    )
    snapshots.begin(after=order.resume)
    code_files = CodeFiles(paths.code_dir)
    gap = find_gap()
    if gap is not None:
        event_log.warning("no_landlock", gap)
    reach = describe_openness(order.script_isolation)
    if reach is not None:
        event_log.message(reach)
    results = Results(job_dir, paths.out_dir, event_log)
    script = spec.script
    sources = MetricSources(
        paths, event_log, pattern=script.metrics_pattern, first=snapshots.number + 1
    )
    is_guarded = spec.resources.device == "gpu" and script.guard.action != "off"
    supervisor = Supervisor(
        event_log,
        stop,
        bounds,
        grace_seconds=script.grace_seconds,
        sources=sources,
        limits=LimitWatch(script.limits, paths.root),
        guard=GpuGuard(script.guard, read_sensors(order.sensor_dirs)) if is_guarded else None,
        results=results,
        snapshots=snapshots,
        has_gpu=order.num_gpus > 0,
    )
    event_log.enter(Phase.RUNNING)
    with stop.deferred():
        try:
            failure = supervisor.run(program)
        finally:
            code_files.warn_of_written(event_log)
            verdicts: dict[str, ModelCheck] = {}
            if not stop.requested and results.models():
                bounds.paths.prepare_tools()
                event_log.enter(Phase.VERIFYING)
                verdicts = check_models(results, bounds, event_log)
            results.close(verdicts)
    if stop.requested:
        raise Stopped
    if failure is not None:
        raise TrainingFailed.from_failure(failure)
    event_log.write(
        EventKind.RESULT,
        metrics=sources.metrics.metrics,
        timings={name: round(value, 3) for name, value in event_log.settle().items()},
    )


def _prepare(
    job_dir: JobDir,
    order: Order,
    spec: ScriptSpec,
    *,
    paths: ScriptPaths,
    event_log: EventLog,
    has_sandbox: bool,
) -> tuple[Program, Bounds]:
    cache_dir = order.paths.cache_dir
    # First: no code of the user has run yet that could have left links in these folders.
    caches = build_caches(os.environ, paths=paths, cache_dir=cache_dir)
    if order.bundle_path is not None:
        bundle = Path(order.bundle_path)
        beat = Heartbeat(event_log.message, "unpacking the code").beat
        unpack(bundle, paths.code_dir, what="code bundle", max_bytes=MAX_CODE_BYTES, beat=beat)
    data = open_data(
        order.dataset,
        cache_dir=cache_dir,
        max_bytes=order.limits.script_cache_bytes,
        say=event_log.message,
    )
    if order.resume is not None:
        beat = Heartbeat(event_log.message, "restoring the script's checkpoints").beat
        restore(job_dir.checkpoints_dir / order.resume, paths.checkpoints_dir, beat=beat)
        event_log.message(f"the script's checkpoints are restored ({order.resume})")
    environment = build_environment(
        spec.script.requirements,
        cache_dir=cache_dir,
        paths=paths,
        say=event_log.message,
        max_bytes=order.limits.script_cache_bytes,
        code_digest=spec.script.bundle or "",
        confine=lambda command, folder: Bounds(
            paths,
            spec.script.limits,
            writable=[folder],
            has_sandbox=has_sandbox,
            control_group=order.control_group,
        ).command(command),
    )
    settings = merge_settings(order.patches)
    program = build_program(
        spec,
        paths=paths,
        environment=environment,
        data=data,
        is_resumed=order.resume is not None,
        num_gpus=order.num_gpus,
        torch_settings=json.dumps(settings) if settings else None,
        environ={**os.environ, **caches.environ},
    )
    held = hold_registered(order.dataset)
    own_data = data if held is None else None
    readable = [path for path in (own_data, environment.folder) if path is not None]
    bounds = Bounds(
        paths,
        spec.script.limits,
        readable=[*readable, *caches.readable],
        writable=caches.writable,
        descriptors={} if held is None or data is None else {held: data},
        has_sandbox=has_sandbox,
        control_group=order.control_group,
    )
    return program, bounds


def _describe(order: Order) -> dict[str, object]:
    """Describe what the script runs on, without opening a device."""
    return {
        "redkiln": __version__,
        "device": order.device,
        "gpus": order.num_gpus,
        "threads": order.threads,
        "patches": [outcome.model_dump(exclude_defaults=True) for outcome in order.patches],
    }
