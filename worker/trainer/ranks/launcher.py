"""Runs one job in several processes, one per rank: started together and ended together.

This process does not train and imports no torch. It leads the process group that the agent knows:
it tests how the GPUs exchange data, starts `python -m worker.trainer` once per rank with torchrun's
variables, and waits. When one rank dies the others would wait for it forever, so they are ended
immediately, and this process exits in the same way as that rank: the agent sees one death, and
judges it like any other.

It does not use torchrun itself, which starts ranks in their own sessions with every descriptor
closed: they would not hold the GPUs' leases, and would survive if the group were killed. See
docs/decisions/0010-ranks.md.
"""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.connection import wait

from pydantic import ValidationError

from redkiln.events import EventKind, EventWriter
from redkiln.failure import FailureCode, JobFailure
from worker.hardware.leases import inherited_leases
from worker.hardware.peers import PeerVerdict, TrialStopped, describe_failure, judge_peers
from worker.jobdir import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED, JobDir, Order
from worker.process.handover import inherited_exporter
from worker.process.lifetime import StopSignal

LOOK_SECONDS = 0.1
COMMAND = (sys.executable, "-m", "worker.trainer")
LEAVE_SECONDS = 3.0
"""Time for other ranks to exit after the first one has stopped; only the first saves anything."""


@dataclass(frozen=True)
class End:
    """The end of a rank.

    Attributes:
        status: Exit status, or minus the number of the signal that ended it.
        failure: Failure that it wrote to a file; None for the first rank.
    """

    rank: int
    status: int
    failure: JobFailure | None = None


def is_rank(environ: Mapping[str, str]) -> bool:
    """Return whether this process is one of several ranks, started here or by torchrun."""
    return "RANK" in environ and int(environ.get("WORLD_SIZE", "1")) > 1


def lead_ranks(
    job_dir: JobDir, order: Order, stop: StopSignal, *, command: Sequence[str] = COMMAND
) -> int:
    """Run the ranks of a job to their common end.

    Args:
        job_dir: Job directory with the order.
        order: Order with more than one rank.
        stop: Stop signal of this process.
        command: Command of one rank, without the job directory.

    Returns:
        How this process must exit: an exit status, or minus the number of the signal that ended a
        rank (`die_as`).

    Raises:
        Stopped: SIGTERM was received before.
    """
    with stop.deferred():
        job_dir.ranks_dir.mkdir(exist_ok=True)
        for path in job_dir.ranks_dir.iterdir():
            path.unlink()  # from an earlier run in this folder: a meeting file works only once
        try:
            verdict = _judge_links(order, lambda: stop.requested)
        except TrialStopped:
            return EXIT_STOPPED
        if verdict.has_passed:
            _warn_of_slow_links(job_dir, verdict)
        elif order.spec.get("resources", {}).get("allow_fewer", False):
            order = _continue_alone(job_dir, order, describe_failure(verdict))
        else:
            return _refuse(job_dir, describe_failure(verdict))
        ends = _run(job_dir, order, stop, verdict.environment, command=command)
        return _conclude(job_dir, ends)


def find_cause(ends: Sequence[End]) -> End | None:
    """Return the end that caused the others; None if all ranks ended normally.

    Args:
        ends: Ends in the order in which they were seen.
    """
    bad = [end for end in ends if end.status not in (EXIT_DONE, EXIT_STOPPED)]
    # A rank that only lost its peers does not know the cause.
    return next((end for end in bad if not _is_bystander(end)), bad[0] if bad else None)


def build_rank_environment(
    environ: Mapping[str, str], *, rank: int, num_ranks: int, threads: int
) -> dict[str, str]:
    """Return a rank's environment: torchrun's names, and the loopback network interface."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": num_ranks}
    return {
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
        **environ,
        **{name: str(value) for name, value in place.items()},
        "LOCAL_WORLD_SIZE": str(num_ranks),
        "OMP_NUM_THREADS": str(threads),
        "REDKILN_PARENT_PID": str(os.getpid()),
    }


def threads_of_rank(order: Order) -> int:
    """Return the CPU threads of each rank: a slot has some per GPU, but ranks share a CPU."""
    return max(1, order.threads // order.num_ranks) if order.device == "cpu" else order.threads


def die_as(status: int) -> int:
    """End this process by signal `-status` if `status` is negative, else return it."""
    if status >= 0:
        return status
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a second core dump would be useless
    number = signal.Signals(-status)
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return EXIT_FAILED  # a signal that does not end a process


def _judge_links(order: Order, should_stop: Callable[[], bool]) -> PeerVerdict:
    return judge_peers(
        order.gpu_keys,
        num_ranks=order.num_ranks,
        device_type=order.device.partition(":")[0],
        environ={**os.environ, "REDKILN_PARENT_PID": str(os.getpid())},
        cache_dir=order.paths.cache_dir / "peers",
        should_stop=should_stop,
    )


def _warn_of_slow_links(job_dir: JobDir, verdict: PeerVerdict) -> None:
    if not verdict.environment:
        return
    settings = " ".join(f"{name}={value}" for name, value in verdict.environment.items())
    message = (
        f"the GPUs exchange data through main memory ({settings}), which is slower. The direct "
        f"exchange failed: {verdict.problem}. iommu=pt on the kernel's command line usually fixes "
        "this"
    )
    with EventWriter(job_dir.events_path) as events:
        events.write(EventKind.WARNING, code="peer_transfers_off", message=message)


def _continue_alone(job_dir: JobDir, order: Order, why: str) -> Order:
    alone = order.model_copy(update={"num_ranks": 1})
    job_dir.order_path.write_text(alone.model_dump_json())
    message = f"trains on one GPU instead of {order.num_ranks} (resources.allow_fewer): {why}"
    with EventWriter(job_dir.events_path) as events:
        events.write(EventKind.WARNING, code="fewer_gpus", message=message)
    return alone


def _refuse(job_dir: JobDir, message: str) -> int:
    sys.stderr.write(f"{message}\n")
    failure = JobFailure.of(FailureCode.GPU_LINKS, message, doctor_row=21)
    with EventWriter(job_dir.events_path) as events:
        events.write(EventKind.FAILURE, **failure.model_dump())
    return EXIT_FAILED


def _run(
    job_dir: JobDir,
    order: Order,
    stop: StopSignal,
    changes: Mapping[str, str],
    *,
    command: Sequence[str],
) -> list[End]:
    with ExitStack() as held:
        children: dict[int, subprocess.Popen[bytes]] = {}
        held.callback(_kill, children)
        for rank in range(order.num_ranks):
            environ = build_rank_environment(
                {**os.environ, **changes},
                rank=rank,
                num_ranks=order.num_ranks,
                threads=threads_of_rank(order),
            )
            children[rank] = subprocess.Popen(
                [*command, str(job_dir.root)],
                env=environ,
                stdin=subprocess.DEVNULL,
                # All ranks print the same; errors go to stderr.
                stdout=subprocess.DEVNULL if rank else None,
                pass_fds=(*inherited_leases(os.environ), *inherited_exporter(os.environ)),
            )
        return _wait(job_dir, children, stop)


def _wait(
    job_dir: JobDir, children: "dict[int, subprocess.Popen[bytes]]", stop: StopSignal
) -> list[End]:
    ends: list[End] = []
    was_signalled = False
    kill_at = float("inf")
    pidfds = {rank: os.pidfd_open(child.pid) for rank, child in children.items()}
    try:
        while len(ends) < len(children):
            left = [pidfd for rank, pidfd in pidfds.items() if children[rank].returncode is None]
            wait(left, LOOK_SECONDS)
            seen = {end.rank for end in ends}
            fresh = [r for r, c in children.items() if r not in seen and c.poll() is not None]
            ends += [_describe_end(job_dir, rank, children[rank]) for rank in fresh]
            has_left = {end.rank for end in ends if end.status == EXIT_STOPPED}
            if find_cause(ends) is not None:
                _kill(children)
            elif (stop.requested or has_left) and not was_signalled:
                was_signalled = True
                _terminate(children)
            if 0 in has_left and kill_at == float("inf"):
                kill_at = time.monotonic() + LEAVE_SECONDS
            if time.monotonic() > kill_at:
                # The state is saved, so it does not matter how the others end.
                _kill(children)
                return ends
    finally:
        for pidfd in pidfds.values():
            os.close(pidfd)
    return ends


def _describe_end(job_dir: JobDir, rank: int, child: "subprocess.Popen[bytes]") -> End:
    path, failure = job_dir.rank_failure_path(rank), None
    with suppress(OSError, ValidationError):
        failure = JobFailure.model_validate_json(path.read_bytes())
    # The rank was asked to stop before it had installed its handler.
    was_terminated = child.returncode == -signal.SIGTERM
    return End(rank, EXIT_STOPPED if was_terminated else child.returncode, failure)


def _is_bystander(end: End) -> bool:
    return end.failure is not None and bool(end.failure.details.get("lost_rank"))


def _conclude(job_dir: JobDir, ends: Sequence[End]) -> int:
    cause = find_cause(ends)
    if cause is None:
        return EXIT_STOPPED if any(end.status == EXIT_STOPPED for end in ends) else EXIT_DONE
    sys.stderr.write(f"rank {cause.rank} of {len(ends)} ended with status {cause.status}\n")
    # The first rank has already written its failure to the job's events.
    if cause.failure is not None and cause.rank > 0:
        details = {**cause.failure.details, "rank": cause.rank}
        with EventWriter(job_dir.events_path) as events:
            failure = cause.failure.model_copy(update={"details": details})
            events.write(EventKind.FAILURE, **failure.model_dump())
    return cause.status


def _terminate(children: "Mapping[int, subprocess.Popen[bytes]]") -> None:
    for child in children.values():
        if child.poll() is None:
            child.terminate()


def _kill(children: "Mapping[int, subprocess.Popen[bytes]]") -> None:
    for child in children.values():
        if child.returncode is None:
            child.kill()
    for child in children.values():
        child.wait()
