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
from worker.jobdir import JobDir
from worker.trainer.models import build_model
from worker.trainer.optimizer import build_optimizer

WARM_SHAPES: tuple[tuple[str, int, int, int], ...] = (
    ("mnist-cnn", 1, 28, 128),
    ("amdnet", 3, 32, 64),
)
"""Model, channels, side and batch of common first jobs: oneDNN compiles its kernels by shape."""
MAX_LINE_BYTES = 65536
MAX_LEASES = 64


def warm_up() -> None:
    """Make a few steps on the CPU."""
    for name, channels, size, batch in WARM_SHAPES:
        options = Options(image_size=size, channels=channels)  # type: ignore[arg-type]
        model = build_model(Model(name=name, options=options), num_classes=10)  # type: ignore[arg-type]
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        optimizer = build_optimizer(model, AdamW())
        images = torch.zeros(batch, channels, size, size)
        images = images.contiguous(memory_format=torch.channels_last)
        labels = torch.zeros(batch, dtype=torch.int64)
        functional.cross_entropy(model(images), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def wait_for_job() -> JobDir | None:
    """Say `ready` and wait for a job directory on stdin; None when stdin ends first.

    With it come, where stdin is a socket, the descriptors of the job's GPU leases. They stay open
    for as long as this process lives, and are inherited by those that it starts with them.
    """
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    line = _receive() if stat.S_ISSOCK(os.fstat(0).st_mode) else sys.stdin.readline()
    return JobDir(Path(line.rstrip("\n"))) if line.endswith("\n") else None


def _receive() -> str:
    received = b""
    with socket.socket(fileno=os.dup(0)) as channel:
        while not received.endswith(b"\n"):
            piece, leases, _, _ = socket.recv_fds(channel, MAX_LINE_BYTES, MAX_LEASES)
            if not piece:
                break
            received += piece
            for lease in leases:
                os.set_inheritable(lease, True)
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
