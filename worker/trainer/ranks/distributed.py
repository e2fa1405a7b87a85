"""The ranks of a job, as each of them sees the others: what they share, and what they agree on.

Every rank runs the same loop over the same steps and trains on its share of each batch. What
follows from numbers is the same everywhere, because losses are added up before they are read, and
gradients before they are used. What follows from a clock or a signal is put to the vote. The first
rank alone evaluates, saves and speaks.

A job in one process has `ALONE`, for which all of this is nothing.
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
"""Longer than the agent waits for an event: it is the agent that judges a standstill."""
LOST_SECONDS = 10.0
"""What whoever leads the ranks is given to end one that has lost another."""
LOST = re.compile(r"closed by peer|reset by peer|Broken pipe|gloo|NCCL|ProcessGroup|c10d", re.I)


class Vote:
    """Flags that all ranks act upon at the same step, if any of them raised one.

    An answer is the one to the call before, so that nobody waits: it has come meanwhile.
    """

    def __init__(self, group: "distributed.ProcessGroup | None", *, num_ranks: int) -> None:
        self._group = group
        self._num_ranks = num_ranks
        self._sent: torch.Tensor | None = None
        self._setup: distributed.Work | None = None

    def __call__(self, *flags: bool) -> tuple[bool, ...]:
        """Put flags to the vote; what was voted at the last call, and none at the first."""
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
        rank: this process's number, from 0.
        size: how many there are.
        control: where they exchange what is no tensor of the training, on the CPU.

    Attributes:
        rank: as above.
        size: as above.
    """

    def __init__(
        self, rank: int = 0, size: int = 1, *, control: "distributed.ProcessGroup | None" = None
    ) -> None:
        self.rank = rank
        self.size = size
        self._control = control

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that evaluates, saves and speaks."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        """Whether there are no others."""
        return self.size == 1

    def share(self, start: int, stop: int) -> tuple[int, int]:
        """This rank's part of the places of a batch: all parts together are the batch."""
        num = stop - start
        return (
            start + num * self.rank // self.size,
            start + num * (self.rank + 1) // self.size,
        )

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum over all ranks, in the tensor itself."""
        if not self.is_alone:
            distributed.all_reduce(tensor)
        return tensor

    def copy_first(self, tensor: torch.Tensor) -> torch.Tensor:
        """The first rank's values, in the tensor itself."""
        if not self.is_alone:
            distributed.broadcast(tensor, src=0)
        return tensor

    def any(self, flag: bool) -> bool:
        """Whether any rank says so; all wait for each other."""
        if self.is_alone:
            return flag
        told = torch.tensor(flag, dtype=torch.uint8)
        distributed.all_reduce(told, distributed.ReduceOp.MAX, group=self._control)
        return bool(told)

    def new_vote(self) -> Vote:
        """A vote, for flags that are asked for once a step."""
        return Vote(self._control, num_ranks=self.size)

    def tell(self, value: T) -> T:
        """What the first rank has; what the others give is not looked at."""
        if self.is_alone:
            return value
        box = [value]
        distributed.broadcast_object_list(box, src=0, group=self._control)
        return box[0]

    def wait(self) -> None:
        """Wait until every rank has come here."""
        if not self.is_alone:
            distributed.barrier(group=self._control)

    def begin_step(self, *, seed: int, step: int) -> None:
        """Have what a step draws (dropout) follow from its number and this rank.

        Nothing of it has to be saved then, and a run goes on with another number of ranks.
        """
        if not self.is_alone:
            torch.manual_seed(derive_seed(seed, f"rank {self.rank}", step))

    def close(self) -> None:
        """Leave together."""
        if not self.is_alone:
            self.wait()
            distributed.destroy_process_group()


ALONE = Ranks()


def order_of_rank(order: Order, environ: Mapping[str, str]) -> Order:
    """The order as this rank follows it: on its own GPU, with its share of the threads."""
    if not is_rank(environ):
        return order
    changes: dict[str, object] = {"threads": threads_of_rank(order)}
    if order.device != "cpu":
        changes["device"] = f"cuda:{environ['LOCAL_RANK']}"
    return order.model_copy(update=changes)


def rank_number(environ: Mapping[str, str]) -> int:
    """This process's rank; 0 where there is only one."""
    return int(environ["RANK"]) if is_rank(environ) else 0


def meet(job_dir: JobDir, environ: Mapping[str, str], *, is_gpu: bool) -> Ranks:
    """Meet the other ranks, if this process is one of several.

    They meet at a file in the job's folder, for a port could be another program's by the time that
    it is used; or where torchrun says.
    """
    if not is_rank(environ):
        return ALONE
    rank, size = int(environ["RANK"]), int(environ["WORLD_SIZE"])
    timeout = timedelta(seconds=MEETING_SECONDS)
    job_dir.ranks_dir.mkdir(exist_ok=True)
    here = f"file://{job_dir.ranks_dir.resolve()}/meeting"
    distributed.init_process_group(
        "nccl" if is_gpu else "gloo",  # RCCL answers to the name, too
        init_method="env://" if "MASTER_ADDR" in environ else here,
        rank=rank,
        world_size=size,
        timeout=timeout,
    )
    control = distributed.new_group(backend="gloo", timeout=timeout)
    return Ranks(rank, size, control=control)


def is_lost(error: BaseException) -> bool:
    """Whether an error says no more than that another rank is not there any more."""
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
    """Within it a rank that has lost another waits to be ended, and says nothing of its own.

    Args:
        should_stop: whether all ranks were asked to leave: then it is no loss.
        device: for the words of a failure.
        seconds: to wait.

    Raises:
        Stopped: all ranks were asked to leave.
        TrainingFailed: nobody ended it.
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
        message = f"the processes of the job lost each other (on {device}): {text}"
        failure = JobFailure.of(FailureCode.NO_PROGRESS, message)
    details = {**failure.details, "lost_rank": True, "pid": os.getpid()}
    return failure.model_copy(update={"details": details})
