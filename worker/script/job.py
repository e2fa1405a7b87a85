"""Runs a script's job: reads its order and writes its events."""

from redkiln.failure import FailureCode
from redkiln.spec.problems import SpecError
from redkiln.tasks import parse_spec
from redkiln.tasks.script import ScriptSpec
from worker.jobdir import JobDir, Order
from worker.process.boundary import run_guarded
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.process.lifetime import StopSignal
from worker.script.run import run_script


def run_job(job_dir: JobDir, stop: StopSignal) -> int:
    """Run the job of a directory; every outcome is reported in its events.

    Returns:
        The exit status (worker.jobdir).
    """
    order = job_dir.load_order()

    def body(event_log: EventLog) -> None:
        run_script(job_dir, order, _parse(order), stop=stop, event_log=event_log)
        event_log.flush_points()

    return run_guarded(job_dir, order, device=order.device, body=body)


def _parse(order: Order) -> ScriptSpec:
    try:
        spec = parse_spec(order.spec)
    except SpecError as error:
        message = f"the spec cannot be parsed: {error}"
        raise TrainingFailed(FailureCode.BAD_INPUT, message) from error
    assert isinstance(spec, ScriptSpec)
    return spec
