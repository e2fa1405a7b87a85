"""What a warm exporter does before its job's model is trained.

It answers the trainer's rehearsals, and as long as nobody asks, it takes the slow first steps: the
first traced model, the first picture. It sees no GPU, and costs memory and nothing else.
"""

import tempfile
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch
from torch import nn

from redkiln.imports import collector_off
from redkiln.spec.exports import Export
from worker.checkpoints.history import History
from worker.export.baselines.learners import import_libraries
from worker.export.card import figures
from worker.export.exportable import OTHER_BATCH, TRACED_BATCH, Exportable
from worker.export.onnx_file import open_session, write_onnx
from worker.export.parity import onnx_predict
from worker.export.remote_rehearsal import answer
from worker.export.target import CurveStyle
from worker.jobdir import JobDir
from worker.process import handover

STDIN = 0


def wait_for_job(requests: Connection | None) -> JobDir | None:
    """Wait for a job directory on stdin, answer rehearsals meanwhile, and warm up in between.

    Args:
        requests: Connection with the trainer of the job that this process will export.

    Returns:
        The job directory; None if stdin ends first.
    """
    steps = list(WARM_UP)
    while True:
        sources: list[Connection | int] = [STDIN] if requests is None else [STDIN, requests]
        ready = wait(sources, timeout=0 if steps else None)
        if STDIN in ready:
            return handover.wait_for_job()
        if requests is not None and requests in ready:
            requests = requests if answer(requests) else None
        elif steps:
            _try(steps.pop(0))


def trace_model() -> None:
    """Export a small network and run it: most of what a first export does is done once."""
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2),
    )  # fmt: skip
    exportable = Exportable(
        network.eval().requires_grad_(False),
        examples={"images": torch.zeros(TRACED_BATCH, 3, 8, 8)},
        others={"images": torch.zeros(OTHER_BATCH, 3, 8, 8)},
        output="logits",
        architecture={},
    )
    inputs = {name: tensor.numpy() for name, tensor in exportable.others.items()}
    with tempfile.TemporaryDirectory(prefix="warm-") as folder:
        path = Path(folder) / "model.onnx"
        write_onnx(exportable, path, opset=Export().opset, metadata={})
        onnx_predict(open_session(path, threads=1))(inputs)
    exportable.predict(inputs)


@collector_off()
def draw_picture() -> None:
    """Draw a curve, so that fonts and the parts of matplotlib are loaded."""
    figures.use_quiet_backend()
    style = CurveStyle(name="val/accuracy", title="accuracy", is_share=True)
    history = History()
    for name in ("train/loss", "val/loss", style.name):
        history.add(name, step=1, value=1.0)
        history.add(name, step=2, value=0.5)
    with tempfile.TemporaryDirectory(prefix="warm-") as folder:
        figures.draw_curves(
            history,
            Path(folder) / "curves.png",
            title="warm",
            best_step=2,
            steps_per_epoch=1,
            metric=style,
        )


WARM_UP: Sequence[Callable[[], None]] = (
    trace_model,
    draw_picture,
    collector_off()(import_libraries),
)
"""Each is short enough for a trainer to wait for. Without the collector the last two take 1.2 s of
CPU time instead of 1.9 s; the process grows by 4 MB."""


def _try(step: Callable[[], None]) -> None:
    """Take a step; a job whose process could not warm up only takes longer."""
    try:
        step()
    except Exception:  # noqa: BLE001  # it is in the log of the spare
        traceback.print_exc()
