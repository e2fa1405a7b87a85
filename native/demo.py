"""`python -m native demo`: trains one model from scratch and measures its accuracy."""

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from rich.console import Console

from native.page import ensure_page
from native.stack import Stack
from redkiln.cli.view.live import watch_job
from redkiln.client import Client
from redkiln.status import JobStatus
from redkiln.views.job import JobView

MNIST = Path("../shared/data/mnist-12k.zip")
STATE_DIR = Path("demo-data")
OUT_DIR = Path("demo-out")
BATCH_SIZE = 100


def run_demo() -> int:
    """Run the demo and return its exit status.

    Raises:
        PartFailed: A part of the stack did not start.
        KeyboardInterrupt: Ctrl-C was pressed; everything is stopped by then.
    """
    console = Console()
    shutil.rmtree(STATE_DIR, ignore_errors=True)
    if (reason := ensure_page()) is not None:
        console.print(reason, markup=False)
    began = time.monotonic()
    console.print(f"Starting Redis, the service and a worker; logs in {STATE_DIR}/logs/")
    with Stack(STATE_DIR) as stack, Client(stack.url, stack.admin_key) as client:
        console.print(f"Up in {time.monotonic() - began:.1f} s, in the browser: {stack.url}")
        job = client.submit(build_spec(prepare_dataset(client, console)))
        job = watch_job(client, job.id, console, interrupt_means="stops everything")
        if job.status != JobStatus.SUCCEEDED:
            return report_failure(client, job, console, logs_dir=stack.logs_dir)
        shutil.rmtree(OUT_DIR, ignore_errors=True)  # the results of the last demo, kept until now
        files = client.download_all(job.id, OUT_DIR)
        console.print(f"Downloaded {len(files)} files to {OUT_DIR}/")
    report_accuracy(OUT_DIR, console)
    console.print(f"Everything is stopped. The demo took {time.monotonic() - began:.0f} s.")
    return 0


def prepare_dataset(client: Client, console: Console) -> str:
    """Return the data set: MNIST if it is next to the checkout, else scikit-learn's digits."""
    if not MNIST.exists():
        console.print("Data: 1,797 handwritten digits from scikit-learn")
        return "builtin:digits"
    console.print(f"Data: {MNIST.name}, 12,000 handwritten digits, uploaded over HTTP")
    dataset = client.push_dataset(MNIST, "mnist-12k")
    return client.wait_dataset(dataset.id).id


def build_spec(dataset: str) -> dict[str, object]:
    """Build the demo's job spec."""
    return {
        "name": "demo",
        "dataset": dataset,
        "model": "mnist-cnn",
        "training": {"epochs": 6 if dataset == "builtin:digits" else 5},
    }


def report_failure(client: Client, job: JobView, console: Console, *, logs_dir: Path) -> int:
    """Say why there is no model, with the last lines of the trainer's log."""
    reason = job.reason.message if job.reason else "no reason was given"
    console.print(f"The job ended as {job.status}: {reason}", style="bold red")
    log = b"".join(client.logs(job.id)).decode(errors="replace")
    console.print("\n".join(log.splitlines()[-20:]), markup=False)
    console.print(f"Logs of the parts: {logs_dir}/")
    return 1


def report_accuracy(folder: Path, console: Console) -> None:
    """Run the downloaded model on the test images that came with it."""
    model = onnxruntime.InferenceSession(
        str(folder / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    with np.load(folder / "parity.npz", allow_pickle=False) as parity:
        is_test = parity["is_test"]
        images, labels = parity["images"][is_test], parity["labels"][is_test]
        torch_logits = parity["logits"][is_test]
    logits = classify(model, images)
    accuracy = float((logits.argmax(axis=1) == labels).mean())
    distance = float(np.abs(logits - torch_logits).max())
    console.print(
        f"{folder}/model.onnx under onnxruntime {onnxruntime.__version__}: "
        f"[bold green]{accuracy:.2%}[/] of {len(labels)} test images correct; "
        f"largest difference from torch {distance:.1e}",
        soft_wrap=True,
    )


def classify(model: Any, images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the logits of (N, H, W, C) uint8 images."""
    name = model.get_inputs()[0].name
    inputs = np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype=np.float32) / 255
    batches = [inputs[start : start + BATCH_SIZE] for start in range(0, len(inputs), BATCH_SIZE)]
    return np.concatenate([model.run(None, {name: batch})[0] for batch in batches])
