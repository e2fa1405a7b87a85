"""The ranks of a job as each of them sees the others: what they share and agree on.

Every rank runs the same loop over the same steps and trains on its share of each batch. Decisions
that follow from numbers are the same on all ranks, because losses are summed before they are read,
and gradients before they are used. Decisions that follow from a clock or a signal are put to a
vote. Only the first rank evaluates, saves and reports.

A job in one process uses `ALONE`, for which all of this does nothing.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import torch
from torch import distributed

from redkiln.failure import FailureCode, JobFailure
from worker.jobdir import JobDir, Order
from worker.process.failed import TrainingFailed, of_exception
from worker.process.lifetime import Stopped
from worker.trainer.ranks.launcher import is_rank, threads_of_rank
from worker.trainer.seeds import derive_seed

T = TypeVar("T")

MEETING_SECONDS = 3600.0
"""Longer than the agent waits for an event, because the agent decides whether a job hangs."""
LOST_SECONDS = 10.0
"""Time for the process that leads the ranks to end a rank that has lost a peer."""
LOST = re.compile(r"closed by peer|reset by peer|Broken pipe|gloo|NCCL|ProcessGroup|c10d", re.I)


class Vote:
    """Flags that all ranks act on at the same step if any rank raised one.

    Each call returns the result of the previous one, which has arrived meanwhile, so that no rank
    waits.
    """

    def __init__(self, group: "distributed.ProcessGroup | None", *, num_ranks: int) -> None:
        self._group = group
        self._num_ranks = num_ranks
        self._sent: torch.Tensor | None = None
        self._setup: distributed.Work | None = None

    def __call__(self, *flags: bool) -> tuple[bool, ...]:
        """Submit flags; return the result of the previous call, which is False at first."""
        if self._num_ranks == 1:
            return flags
        decided = self._collect() or (False,) * len(flags)
        self._sent = torch.tensor(flags, dtype=torch.uint8)
        self._setup = distributed.all_reduce(
            self._sent, distributed.ReduceOp.MAX, group=self._group, async_op=True
        )
        return decided

    def _collect(self) -> tuple[bool, ...]:
        if self._setup is None or self._sent is None:
            return ()
        self._setup.wait()
        return tuple(map(bool, self._sent.tolist()))


class Ranks:
    """The processes of a job.

    Args:
        rank: This process's number, from 0.
        size: Number of processes.
        control: Group for exchanging anything except tensors of the training, on the CPU.

    Attributes:
        rank: This process's number.
        size: Number of processes.
    """

    def __init__(
        self, rank: int = 0, size: int = 1, *, control: "distributed.ProcessGroup | None" = None
    ) -> None:
        self.rank = rank
        self.size = size
        self._control = control

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that evaluates, saves and reports."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        """Whether this is the only rank."""
        return self.size == 1

    def share(self, start: int, stop: int) -> tuple[int, int]:
        """Return the bounds of this rank's part of a batch; all parts together are the batch."""
        num = stop - start
        return (
            start + num * self.rank // self.size,
            start + num * (self.rank + 1) // self.size,
        )

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        """Sum a tensor over all ranks, in place."""
        if not self.is_alone:
            distributed.all_reduce(tensor)
        return tensor

    def copy_first(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy the first rank's values into a tensor, in place."""
        if not self.is_alone:
            distributed.broadcast(tensor, src=0)
        return tensor

    def any(self, flag: bool) -> bool:
        """Return whether any rank has the flag; all ranks wait for each other."""
        if self.is_alone:
            return flag
        flags = torch.tensor(flag, dtype=torch.uint8)
        distributed.all_reduce(flags, distributed.ReduceOp.MAX, group=self._control)
        return bool(flags)

    def new_vote(self) -> Vote:
        """Return a vote for flags that are submitted once per step."""
        return Vote(self._control, num_ranks=self.size)

    def broadcast(self, value: T) -> T:
        """Return the first rank's value; the values of other ranks are ignored."""
        if self.is_alone:
            return value
        box = [value]
        distributed.broadcast_object_list(box, src=0, group=self._control)
        return box[0]

    def wait(self) -> None:
        """Wait until every rank has called this."""
        if not self.is_alone:
            distributed.barrier(group=self._control)

    def begin_step(self, *, seed: int, step: int) -> None:
        """Make a step's random numbers (dropout) depend only on its number and this rank.

        Nothing about them has to be saved then, and a run can resume with another number of ranks.
        """
        if not self.is_alone:
            torch.manual_seed(derive_seed(seed, f"rank {self.rank}", step))

    def close(self) -> None:
        """Leave together with the other ranks."""
        if not self.is_alone:
            self.wait()
            distributed.destroy_process_group()


ALONE = Ranks()


def order_of_rank(order: Order, environ: Mapping[str, str]) -> Order:
    """Return the order for this rank, with its own GPU and its share of the threads."""
    if not is_rank(environ):
        return order
    changes: dict[str, object] = {"threads": threads_of_rank(order)}
    if order.device != "cpu":
        changes["device"] = f"cuda:{environ['LOCAL_RANK']}"
    return order.model_copy(update=changes)


def rank_number(environ: Mapping[str, str]) -> int:
    """Return this process's rank; 0 if there is only one."""
    return int(environ["RANK"]) if is_rank(environ) else 0


def meet(job_dir: JobDir, environ: Mapping[str, str], *, is_gpu: bool) -> Ranks:
    """Join the other ranks, if this process is one of several.

    They meet at a file in the job's folder, because another program could take a port before it is
    used; or where torchrun says.
    """
    if not is_rank(environ):
        return ALONE
    rank, size = int(environ["RANK"]), int(environ["WORLD_SIZE"])
    timeout = timedelta(seconds=MEETING_SECONDS)
    job_dir.ranks_dir.mkdir(exist_ok=True)
    here = f"file://{job_dir.ranks_dir.resolve()}/meeting"
    distributed.init_process_group(
        "nccl" if is_gpu else "gloo",  # RCCL uses this name, too
        init_method="env://" if "MASTER_ADDR" in environ else here,
        rank=rank,
        world_size=size,
        timeout=timeout,
    )
    control = distributed.new_group(backend="gloo", timeout=timeout)
    return Ranks(rank, size, control=control)


def is_lost(error: BaseException) -> bool:
    """Return whether an error only says that another rank is gone."""
    kinds = (distributed.DistBackendError, distributed.DistNetworkError, distributed.DistStoreError)
    return isinstance(error, kinds) or (
        isinstance(error, RuntimeError)
        and not isinstance(error, torch.OutOfMemoryError)
        and LOST.search(str(error)) is not None
    )


@contextmanager
def defer_peer_loss(
    should_stop: Callable[[], bool], *, device: str, seconds: float = LOST_SECONDS
) -> Iterator[None]:
    """Make a rank that has lost a peer wait to be ended, without reporting its own failure.

    Args:
        should_stop: Whether all ranks were asked to stop; a lost peer is then no failure.
        device: Device, for the failure's message.
        seconds: How long to wait.

    Raises:
        Stopped: all ranks were asked to stop.
        TrainingFailed: the rank was not ended in that time.
    """
    try:
        yield
    except RuntimeError as error:
        if not is_lost(error):
            raise
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not should_stop():
            time.sleep(0.05)
        if should_stop():
            raise Stopped from None
        raise TrainingFailed.from_failure(_describe_loss(error, device)) from error


def _describe_loss(error: BaseException, device: str) -> JobFailure:
    failure = of_exception(error, device=device)
    if failure.code == FailureCode.INTERNAL:
        text = str(error).partition("\n")[0][:500]
        message = f"the job's processes lost their connection (on {device}): {text}"
        failure = JobFailure.of(FailureCode.NO_PROGRESS, message)
    details = {**failure.details, "lost_rank": True, "pid": os.getpid()}
    return failure.model_copy(update={"details": details})
