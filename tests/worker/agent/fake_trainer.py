"""A trainer that obeys worker/jobdir.py without torch; the order's spec is its script.

fake_trainer.py train JOBDIR | train --spare | export JOBDIR | inventory
"""

# ruff: noqa: T201  a program

import hashlib
import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from redkiln.events import EventWriter
from worker.jobdir import EXIT_FAILED, EXIT_STOPPED, JobDir

stopped = False


def on_sigterm(*_):
    global stopped
    stopped = True


def main():
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if sys.argv[1] == "inventory":
        gpus = json.loads(os.environ.get("REDKILN_TRAINER_FAKE_GPUS", "[]"))
        arches = sorted({gpu["arch"] for gpu in gpus})
        print(json.dumps({"torch_version": "2.13.0", "arch_list": arches, "gpus": gpus}))
        return
    if sys.argv[1] == "export":
        if sys.argv[2] == "--spare":
            line = sys.stdin.readline()
            if line:
                export(JobDir(Path(line.strip())), is_warm=True)
        else:
            export(JobDir(Path(sys.argv[2])), is_warm=False)
        return
    if sys.argv[2] == "--spare":
        print("ready", flush=True)
        with socket.socket(fileno=os.dup(0)) as channel:
            line, *_ = socket.recv_fds(channel, 4096, 64)
        if not line:
            return
        line = line.decode()
        jobdir = JobDir(Path(line.strip()))
        log = os.open(jobdir.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        train(jobdir, is_warm=True)
    else:
        train(JobDir(Path(sys.argv[2])), is_warm=False)


def train(jobdir, *, is_warm):
    order = jobdir.load_order()
    script = order.spec
    if not script.get("deaf"):
        signal.signal(signal.SIGTERM, on_sigterm)
    else:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    events = EventWriter(jobdir.events_path)
    start = 0
    if order.resume:
        manifest = json.loads(
            (jobdir.checkpoints_dir / order.resume).with_suffix(".json").read_text()
        )
        start = manifest["step"]
    jobdir.checkpoints_dir.mkdir(exist_ok=True)
    print(
        f"warm={is_warm} start={start} dataset={order.dataset and order.dataset.fingerprint}",
        flush=True,
    )
    print("secrets", sorted(name for name in os.environ if "KEY" in name or "BROKER" in name))
    masks = {name: os.environ[name] for name in sorted(os.environ) if "VISIBLE" in name}
    print(f"masks {masks} gpus={order.num_gpus} limit={order.memory_limit_bytes}")
    print("tunables", os.environ.get("GLIBC_TUNABLES"))
    print("denied", json.dumps(order.denied))
    print("leases", sorted(held_locks()), flush=True)
    events.write("phase", phase="training")
    for step in range(start + 1, script.get("steps", 10) + 1):
        if stopped:
            checkpoint(jobdir, events, step - 1)
            sys.exit(EXIT_STOPPED)
        time.sleep(script.get("step_seconds", 0.005))
        if step == script.get("hang_at"):
            time.sleep(3600)
        steps = script.get("steps", 10)
        preview = leave_preview(jobdir, step) if step == script.get("preview_at") else None
        events.write("progress", step=step, steps=steps, fraction=step / steps, preview=preview)
        events.write("metrics", points={"train/loss": [[step, 1 / step]]})
        if step % script.get("checkpoint_every", 5) == 0:
            checkpoint(jobdir, events, step)
        if step == script.get("die_at") and start < step:
            die(script["how"], events)
    for path, content in script.get("leave", {}).items():
        Path(path).write_text(content)
    if script.get("task") == "benchmark":  # it exports nothing, so it leaves everything itself
        leave_files(jobdir, events)
        return
    jobdir.trained_path.write_text("{}")
    if script.get("crash_after"):
        os.kill(os.getpid(), signal.SIGSEGV)


def leave_preview(jobdir, step):
    jobdir.preview_dir.mkdir(exist_ok=True)
    (jobdir.preview_dir / "step-3.png").write_bytes(b"a picture")
    return {"step": step, "file": "step-3.png", "media_type": "image/png", "num": 24}


def held_locks():
    """Names of the lock files that this process has open."""
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if (target := entry.readlink()).suffix == ".lock":
                yield target.stem


def die(how, events):
    if how == "announce":
        events.write("failure", code="diverged", message="the loss is NaN", retryable=False)
        sys.exit(EXIT_FAILED)
    if how == "half-line":
        os.write(events._fd, b'{"at":"2026')
        os.kill(os.getpid(), signal.SIGKILL)
    if how.startswith("say:"):
        print(how[4:], file=sys.stderr, flush=True)
        sys.exit(1)
    os.kill(os.getpid(), getattr(signal, how))


def checkpoint(jobdir, events, step):
    name = f"step-{step:012d}.safetensors"
    content = f"state at step {step}".encode() * 100
    (jobdir.checkpoints_dir / name).write_bytes(content)
    manifest = {
        "step": step,
        "sha256": hashlib.sha256(content).hexdigest(),
        "size_bytes": len(content),
    }
    (jobdir.checkpoints_dir / name).with_suffix(".json").write_text(json.dumps(manifest))
    events.write("checkpoint", step=step, epoch=0, file=name, is_best=False, metrics={})


def export(jobdir, *, is_warm):
    script = jobdir.load_order().spec
    with EventWriter(jobdir.events_path) as events:
        events.write("message", text=f"export warm={is_warm}")
        events.write("phase", phase="exporting")
        time.sleep(script.get("export_seconds", 0))
        leave_files(jobdir, events)


def leave_files(jobdir, events):
    (jobdir.out_dir / "model.onnx").write_bytes(b"onnx" * 1000)
    (jobdir.out_dir / "report.md").write_text("# a model")
    outputs = [
        {"name": "model.onnx", "kind": "model", "media_type": "application/onnx",
         "verified": True},
        {"name": "report.md", "kind": "report", "media_type": "text/markdown"},
    ]  # fmt: skip
    events.write("result", metrics={"test/accuracy": 0.5}, verified=True, timings={})
    jobdir.outputs_path.write_text(json.dumps(outputs))


main()
