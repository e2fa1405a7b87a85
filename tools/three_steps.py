"""Trains a small network for three steps on a device: python tools/three_steps.py [cuda:0].

`tools/emulate.sh` runs it on an emulated GPU. It uses the trainer as a job does, with the guard
against work on the CPU, and without a service.
"""

import sys
import tempfile
from pathlib import Path

from redkiln.events import EventWriter
from worker.jobdir import JobDir, LocalDataset, Order, OrderLimits, OrderPaths
from worker.process.event_log import EventLog
from worker.tasks.train import build_loop

STEPS = 3
DIGITS = "builtin:digits"
SPEC = {
    "task": "image-classification",
    "dataset": DIGITS,
    "model": {"name": "mnist-cnn"},
    "training": {"steps": STEPS, "batch_size": 8, "precision": "fp32", "compile": "off"},
}


def train(device: str, folder: Path) -> int:
    """Train on a device, with files in a folder; return the number of steps."""
    job_dir = JobDir(folder / "job")
    job_dir.root.mkdir()
    order = Order(
        job_id="job_three_steps",
        job_name="three steps",
        attempt_id="att_three_steps",
        spec=SPEC,
        dataset=LocalDataset(name=DIGITS, kind="builtin", fingerprint=DIGITS),
        device=device,
        threads=1,
        paths=OrderPaths(cache_dir=folder / "cache"),
        limits=OrderLimits(),
    )
    job_dir.order_path.write_text(order.model_dump_json())
    writer = EventWriter(job_dir.events_path)
    event_log = EventLog(writer, progress_seconds=0.0)
    loop, setup = build_loop(job_dir, order, event_log=event_log, should_stop=lambda: False)
    loop.run()
    setup.close()
    writer.close()
    return loop.step


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        done = train(sys.argv[1] if sys.argv[1:] else "cuda:0", Path(folder))
    sys.stdout.write(f"trained {done} steps\n")
    sys.exit(done != STEPS)
