"""One of two ranks that make one job after another, so that torch is imported once for all tests.

-m tests.worker.rank_pair         with torchrun's variables in its environment
{"root": ..., "faults": {...}}    a line of its stdin
{"status": ..., ...}              the line that answers it: how this rank ended, with what
{"store": ...}                    another line: share the weights of a network over a file
[[...], ...]                      its answer: this rank's tensors afterwards

faults: `factor` that the loss is multiplied by at the `steps`, counted from 1, `times` times each,
on the `ranks` named; `memory` for so many samples at once there; `stop_after` a step.
"""

import hashlib
import json
import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn

from worker.jobdir import JobDir
from worker.process.lifetime import StopSignal, die_with_parent
from worker.tasks.train import run_job
from worker.trainer import run
from worker.trainer.optim.averaging import share_weights
from worker.trainer.ranks.distributed import Ranks

build_loop = run.build_loop


@dataclass
class Faults:
    """What goes wrong in one job, and its loop."""

    factor: str = "1"
    steps: list[int] = field(default_factory=list)
    times: int = 1
    ranks: list[int] = field(default_factory=lambda: [1])
    memory: int | None = None
    stop_after: int | None = None
    loop: Any = None

    def build(self, *args, **options):
        """`build_loop` of a loop whose loss is spoiled."""
        self.loop, setup = build_loop(*args, **options)
        left = dict.fromkeys(self.steps, self.times)
        is_mine = int(os.environ["RANK"]) in self.ranks

        def loss(outputs, targets, *, own=self.loop._stepper.gradients._setup.loss):
            step = self.loop.step + 1
            left[step] = left.get(step, 0) - 1
            if is_mine and self.memory is not None and len(targets) > self.memory:
                raise torch.OutOfMemoryError("no room for a whole share")
            wrong = float(self.factor) if is_mine and left[step] >= 0 else 1.0
            return own(outputs, targets) * wrong

        self.loop._stepper.gradients._setup = replace(
            self.loop._stepper.gradients._setup, loss=loss
        )
        return self.loop, setup


class Stop(StopSignal):
    """Asks to stop behind a step."""

    def __init__(self, faults):
        self._faults = faults
        super().__init__()

    @property
    def requested(self):
        after, loop = self._faults.stop_after, self._faults.loop
        return after is not None and loop is not None and loop.step >= after

    @requested.setter
    def requested(self, value):
        assert not value


def make_job(root, faults):
    run.build_loop = faults.build
    status = run_job(JobDir(Path(root)), Stop(faults))
    if distributed.is_initialized():
        distributed.destroy_process_group()
    loop = faults.loop
    return {"status": status} | ({} if loop is None else describe(loop))


def describe(loop):
    digest = hashlib.sha256()
    for tensor in loop._setup.model.state_dict().values():
        digest.update(tensor.contiguous().numpy().tobytes())
    scaling = loop._stepper.scaling.state()
    return {
        "weights": digest.hexdigest(),
        "step": loop.step,
        "scale": scaling["scaler"].get("scale"),
        "num_skipped": scaling["num_skipped"],
        "num_rollbacks": loop._state.num_rollbacks,
        "lr": loop._training.optimizer.lr,
    }


def share(store):
    """Make a network of this rank's own numbers, and share the first rank's."""
    rank = int(os.environ["RANK"])
    place = f"file://{store}"
    distributed.init_process_group("gloo", init_method=place, rank=rank, world_size=2)
    torch.manual_seed(rank)
    layers = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)
    model = nn.Sequential(*layers).to(memory_format=torch.channels_last)
    model[1].num_batches_tracked.fill_(7 + rank)
    share_weights(model, Ranks(rank, 2))
    distributed.destroy_process_group()
    return [tensor.tolist() for tensor in model.state_dict().values()]


def main():
    die_with_parent(int(os.environ["REDKILN_PARENT_PID"]))
    # A trainer's stdout is its log.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    run._rehearse = lambda *_: None  # an export says nothing about ranks
    for line in sys.stdin:
        job = json.loads(line)
        is_job = "root" in job
        answer = make_job(job["root"], Faults(**job["faults"])) if is_job else share(job["store"])
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
