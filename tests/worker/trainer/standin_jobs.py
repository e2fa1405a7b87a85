"""What runs on the stand-in for a GPU, in a separate process, as lines of JSON.

`python -m tests.worker.trainer.standin_jobs`: each line of stdin is a list of orders with a `kind`.
"""

import contextlib
import gc
import json
import os
import sys
from pathlib import Path
from unittest import mock

import torch

from tests.worker.trainer import standin_streams as streams
from tests.worker.trainer.standin_gpu import CUDA, DeviceTensor, GiB, install


def train(root, *, stop_after=None, spare_bytes=None, home="device"):
    """Train a job up to a step, if one is given; return what the device then was.

    With `spare_bytes`, the device has this much memory above what the job's start needed. With
    `home="disk"`, the images are read ahead and copied on a separate stream.
    """
    from redkiln.events import EventWriter
    from worker.jobdir import JobDir
    from worker.process.event_log import EventLog
    from worker.process.lifetime import Stopped
    from worker.tasks.train import build_loop

    job_dir = JobDir(Path(root))
    writer = EventWriter(job_dir.events_path)
    box = []
    with mock.patch("worker.trainer.images.pixel_set.choose_home", return_value=home):
        loop, setup = build_loop(
            job_dir, job_dir.load_order(), event_log=EventLog(writer, progress_seconds=1000.0),
            should_stop=lambda: stop_after is not None and box[0].step >= stop_after,
        )  # fmt: skip
    box.append(loop)
    memory = DeviceTensor.memory
    if spare_bytes is not None:
        gc.collect()  # tensors of earlier jobs
        memory.total = memory.used + spare_bytes
    with contextlib.suppress(Stopped):
        loop.run()
    writer.close()
    devices = {str(tensor.device) for tensor in setup.model.state_dict().values()}
    memory.total = 16 * GiB
    accumulation = setup.spec.training.accumulation
    return {
        "step": loop.step,
        "devices": sorted(devices),
        "accumulation": accumulation,
        "refused": sorted(memory.refused),
    }


def run_whole(root):
    """Run a job as its worker does, from its order to what the export needs; return how it ended.

    The exporter that it asks to rehearse is a separate process without a GPU, so what it is sent is
    written into `rehearsal.pt`.
    """
    from worker.jobdir import JobDir
    from worker.process.lifetime import StopSignal
    from worker.tasks.train import run_job

    job_dir = JobDir(Path(root))

    def answer(rehearsal, _event_log):
        torch.save(rehearsal, job_dir.root / "rehearsal.pt")
        return 0.0

    asked = mock.patch("worker.trainer.run._ask_exporter", answer)
    with asked, mock.patch("worker.trainer.run.is_rehearsed", return_value=False):
        status = run_job(job_dir, StopSignal())
    return {"status": status, "is_trained": job_dir.trained_path.exists()}


def scale_losses():
    """Return which of three steps in fp16 the scaler skips; the second gradient is infinite."""
    from worker.trainer.optim.scaling import LossScaling

    model = torch.nn.Linear(4, 1).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaling = LossScaling(model, optimizer, is_on=True)
    for factor in (1.0, float("inf"), 1.0):
        optimizer.zero_grad()
        scaling.scale(model(torch.ones(2, 4, device="cuda")).mean() * factor).backward()
        scaling.clip(list(model.parameters()), most=1.0)
        scaling.step()
    return {"skipped": scaling.read_skipped(3), "state": scaling.state()["scaler"]}


def read_ahead():
    """Read batches ahead; return their sums, and the error if a step does not wait for a copy."""
    import numpy as np

    from worker.trainer.images.rows.pixel_rows import ArrayRows
    from worker.trainer.images.rows.prefetch import Prefetch

    def read():
        planes = np.arange(10, dtype=np.uint8).reshape(10, 1, 1, 1)
        requests = iter([(number, [number, number + 1]) for number in range(9)])
        ahead = Prefetch(
            ArrayRows(planes), requests, batch_size=2, image_shape=(1, 1, 1), device=CUDA
        )
        with contextlib.closing(ahead):
            return [int(found[1].sum()) for found in iter(ahead.next, None)]

    sums = read()
    with mock.patch.object(streams.Stream, "wait_event"):
        try:
            read()
        except RuntimeError as error:
            return {"sums": sums, "error": str(error)}
    return {"sums": sums, "error": None}


def check_numbers():
    """Run the quick self-test, and the doctor's trials; return what each found."""
    from datetime import UTC, datetime

    from redkiln.views.self_test import SelfTestReport
    from worker.hardware.selftest.run import describe_device, run_self_test
    from worker.hardware.selftest.trial import CASES, try_case, try_copy

    at, said = datetime.now(UTC), []
    blank = SelfTestReport(at=at, device="cuda:0", status="error", is_quick=True)
    report = run_self_test(blank, precisions=["fp32"], say=said.append)
    trials = {name: try_case(make(), CUDA) for name, make in CASES.items()}
    return {
        "device": describe_device(CUDA),
        "areas": sorted({result.area for result in report.results}),
        "bad": [result.model_dump(mode="json") for result in report.bad],
        "trials": trials | {"copy": try_copy(CUDA)},
    }


def mix():
    """Return the error of an operator on tensors of both sides."""
    try:
        torch.ones(2, device="cuda") + torch.ones(2)
    except RuntimeError as error:
        return {"error": str(error)}
    return {"error": None}


def main():
    """Carry out what each line of stdin lists; answer with a line of JSON.

    Trainers print, too: the answers go to what was stdout when the process started.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    memory = install()
    for line in sys.stdin:
        found = []
        gc.collect()  # tensors of earlier jobs
        torch.cuda.reset_peak_memory_stats()
        for order in json.loads(line):
            ended = KINDS[order.pop("kind", "train")](**order)
            found.append({**ended, "peak_bytes": memory.peak})
        answers.write(json.dumps(found) + "\n")
        answers.flush()


KINDS = {
    "train": train, "whole": run_whole, "mix": mix, "scale": scale_losses, "read": read_ahead,
    "check": check_numbers,
}  # fmt: skip


if __name__ == "__main__":
    main()
