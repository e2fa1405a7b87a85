"""One job in several processes, a rank each: started together, and ended together.

This process trains nothing and imports no torch. It leads the group that the agent knows: it tries
how the GPUs exchange data, starts `python -m worker.trainer` once a rank with torchrun's variables,
and waits. When one rank dies the others would wait for it for ever, so they are ended at once, and
this process leaves the way that rank did: the agent sees one death, and judges it as any other.

It is not torchrun itself, which starts ranks in sessions of their own with every descriptor closed:
the leases of the GPUs would not be theirs, and a killed group would leave them behind.
docs/decisions/0010-ranks.md says more.
"""

import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from redkiln.events import EventKind, EventWriter
from redkiln.failure import FailureCode, JobFailure
from worker.hardware.leases import inherited_leases
from worker.hardware.peers import PeerVerdict, TrialStopped, describe_failure, judge_peers
from worker.jobdir import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED, JobDir, Order
from worker.process.lifetime import StopSignal

LOOK_SECONDS = 0.1
COMMAND = (sys.executable, "-m", "worker.trainer")
LEAVE_SECONDS = 3.0
"""After the first rank has left as it was told; it alone has anything to save."""


@dataclass(frozen=True)
class End:
    """How a rank ended.

    Attributes:
        status: exit status; minus the number of the signal that ended it.
        failure: what it wrote down before it left, where it is not the first rank.
    """

    rank: int
    status: int
    failure: JobFailure | None = None


def is_rank(environ: Mapping[str, str]) -> bool:
    """Whether this process is one of several ranks, of ours or of torchrun's."""
    return "RANK" in environ and int(environ.get("WORLD_SIZE", "1")) > 1


def lead_ranks(
    job_dir: JobDir, order: Order, stop: StopSignal, *, command: Sequence[str] = COMMAND
) -> int:
    """Run the ranks of a job to their common end.

    Args:
        job_dir: with its order.
        order: with more than one rank.
        stop: heard by this process.
        command: of one rank; it gets the job directory.

    Returns:
        What this process has to leave with: an exit status, or minus the number of the signal that
        ended a rank (`die_as`).

    Raises:
        Stopped: SIGTERM came before.
    """
    with stop.deferred():
        job_dir.ranks_dir.mkdir(exist_ok=True)
        for path in job_dir.ranks_dir.iterdir():
            path.unlink()  # of an earlier run in this folder: a meeting place serves once
        try:
            verdict = _judge_links(order, lambda: stop.requested)
        except TrialStopped:
            return EXIT_STOPPED
        if verdict.has_passed:
            _tell_verdict(job_dir, verdict)
        elif order.spec.get("resources", {}).get("allow_fewer", False):
            order = _go_on_alone(job_dir, order, describe_failure(verdict))
        else:
            return _refuse(job_dir, describe_failure(verdict))
        ends = _run(job_dir, order, stop, verdict.environment, command=command)
        return _conclude(job_dir, ends)


def find_cause(ends: Sequence[End]) -> End | None:
    """The death that took the others along; None when all ended well.

    Args:
        ends: in the order in which they were seen.
    """
    bad = [end for end in ends if end.status not in (EXIT_DONE, EXIT_STOPPED)]
    # Who only lost the others has nothing to say about why.
    return next((end for end in bad if not _is_bystander(end)), bad[0] if bad else None)


def build_rank_environment(
    environ: Mapping[str, str], *, rank: int, num_ranks: int, threads: int
) -> dict[str, str]:
    """What a rank runs in: torchrun's names, and everything on this host's own interface."""
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
    """CPU threads of each rank: a slot has some for each of its GPUs, and a CPU is shared."""
    return max(1, order.threads // order.num_ranks) if order.device == "cpu" else order.threads


def die_as(status: int) -> int:
    """End this process by the signal that `status` is minus the number of, else return it."""
    if status >= 0:
        return status
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a second dump of it tells nothing
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
        cache_dir=Path(order.cache_dir) / "peers",
        should_stop=should_stop,
    )


def _tell_verdict(job_dir: JobDir, verdict: PeerVerdict) -> None:
    if not verdict.environment:
        return
    settings = " ".join(f"{name}={value}" for name, value in verdict.environment.items())
    message = (
        f"the GPUs exchange data through main memory ({settings}), which is slower: directly, "
        f"{verdict.problem}; iommu=pt on the kernel's command line is the usual cure"
    )
    with EventWriter(job_dir.events_path) as events:
        events.write(EventKind.WARNING, code="peer_transfers_off", message=message)


def _go_on_alone(job_dir: JobDir, order: Order, why: str) -> Order:
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
                # All say the same; what goes wrong is said on stderr.
                stdout=subprocess.DEVNULL if rank else None,
                pass_fds=inherited_leases(os.environ),
            )
        return _wait(job_dir, children, stop)


def _wait(
    job_dir: JobDir, children: "dict[int, subprocess.Popen[bytes]]", stop: StopSignal
) -> list[End]:
    ends: list[End] = []
    told = False
    kill_at = float("inf")
    pidfds = {rank: os.pidfd_open(child.pid) for rank, child in children.items()}
    try:
        while len(ends) < len(children):
            left = [pidfd for rank, pidfd in pidfds.items() if children[rank].returncode is None]
            select.select(left, [], [], LOOK_SECONDS)
            seen = {end.rank for end in ends}
            fresh = [r for r, c in children.items() if r not in seen and c.poll() is not None]
            ends += [_describe_end(job_dir, rank, children[rank]) for rank in fresh]
            has_left = {end.rank for end in ends if end.status == EXIT_STOPPED}
            if find_cause(ends) is not None:
                _kill(children)
            elif (stop.requested or has_left) and not told:
                told = True
                _tell(children)
            if 0 in has_left and kill_at == float("inf"):
                kill_at = time.monotonic() + LEAVE_SECONDS
            if time.monotonic() > kill_at:
                # The state is saved: nobody is asked why the others went.
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
    # One that was asked to leave before it could hear it.
    was_told = child.returncode == -signal.SIGTERM
    return End(rank, EXIT_STOPPED if was_told else child.returncode, failure)


def _is_bystander(end: End) -> bool:
    return end.failure is not None and bool(end.failure.details.get("lost_rank"))


def _conclude(job_dir: JobDir, ends: Sequence[End]) -> int:
    cause = find_cause(ends)
    if cause is None:
        return EXIT_STOPPED if any(end.status == EXIT_STOPPED for end in ends) else EXIT_DONE
    sys.stderr.write(f"rank {cause.rank} of {len(ends)} ended with status {cause.status}\n")
    # The first rank has written its failure where all events go; it has died since.
    if cause.failure is not None and cause.rank > 0:
        details = {**cause.failure.details, "rank": cause.rank}
        with EventWriter(job_dir.events_path) as events:
            failure = cause.failure.model_copy(update={"details": details})
            events.write(EventKind.FAILURE, **failure.model_dump())
    return cause.status


def _tell(children: "Mapping[int, subprocess.Popen[bytes]]") -> None:
    for child in children.values():
        if child.poll() is None:
            child.terminate()


def _kill(children: "Mapping[int, subprocess.Popen[bytes]]") -> None:
    for child in children.values():
        if child.returncode is None:
            child.kill()
    for child in children.values():
        child.wait()
