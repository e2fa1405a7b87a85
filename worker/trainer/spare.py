"""The warm spare: a trainer that has done all the slow first things and waits for its job.

Importing torch takes over a second, the first optimiser and the first step another one. None of it
opens a GPU, so a spare costs memory and nothing else.
"""

import os
import socket
import stat
import sys
from pathlib import Path

import torch
from torch.nn import functional

from redkiln.spec import AdamW
from redkiln.tasks.image_classification import Model, Options
from worker.jobdir import LEASES_VARIABLE, JobDir
from worker.trainer.devices import autocast_of, device_facts
from worker.trainer.models import build_model
from worker.trainer.optimizer import build_optimizer
from worker.trainer.resolve import resolve_precision

WARM_SHAPES: tuple[tuple[str, int, int, int], ...] = (
    ("mnist-cnn", 1, 28, 128),
    ("amdnet", 3, 32, 64),
)
"""Model, channels, side and batch of common first jobs: oneDNN compiles its kernels by shape."""
MAX_LINE_BYTES = 65536
MAX_LEASES = 64


def warm_up() -> None:
    """Make a few steps on the CPU, at the precision that it takes by itself."""
    device = torch.device("cpu")
    precision = resolve_precision("auto", device=device_facts(device))
    for name, channels, size, batch in WARM_SHAPES:
        options = Options(image_size=size, channels=channels)  # type: ignore[arg-type]
        model = build_model(Model(name=name, options=options), num_classes=10)
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        optimizer = build_optimizer(model, AdamW())
        images = torch.zeros(batch, channels, size, size)
        images = images.contiguous(memory_format=torch.channels_last)
        labels = torch.zeros(batch, dtype=torch.int64)
        with autocast_of(device, precision):
            outputs = model(images)
        functional.cross_entropy(outputs.float(), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def wait_for_job() -> JobDir | None:
    """Say `ready` and wait for a job directory on stdin; None when stdin ends first.

    With it come, where stdin is a socket, the descriptors of the job's GPU leases. They stay open
    for as long as this process lives, and its environment names them for those that it starts.
    """
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    line = _receive() if stat.S_ISSOCK(os.fstat(0).st_mode) else sys.stdin.readline()
    return JobDir(Path(line.rstrip("\n"))) if line.endswith("\n") else None


def _receive() -> str:
    received, held = b"", list[int]()
    with socket.socket(fileno=os.dup(0)) as channel:
        while not received.endswith(b"\n"):
            piece, leases, _, _ = socket.recv_fds(channel, MAX_LINE_BYTES, MAX_LEASES)
            if not piece:
                break
            received += piece
            held += leases
    os.environ[LEASES_VARIABLE] = ",".join(map(str, held))
    return received.decode()


def redirect_output(job_dir: JobDir) -> None:
    """From here on stdout and stderr go to the job's log, and stdin is empty."""
    sys.stdout.flush()
    sys.stderr.flush()
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    log = os.open(job_dir.log_path, flags, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, log), (2, log)):
        os.dup2(source, target)
    os.close(log)
    os.close(nothing)
