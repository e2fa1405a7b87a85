"""A trainer that obeys worker/jobdir.py without torch; the spec's metadata holds its script.

fake_trainer.py train JOBDIR | train --spare | export JOBDIR | export --spare | inventory

A spec of an ordinary job is a script too: see `script_of`. It imports nothing of ours, because
hundreds of tests start it: 0.05 s of CPU time instead of 0.6. The agent reads what it writes with
our classes.
"""

# ruff: noqa: T201  a program

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

EXIT_FAILED, EXIT_STOPPED = 3, 75  # as in worker/jobdir.py
STEPS_AN_EPOCH = 10
stopped = False


class JobDir:
    """The paths of worker/jobdir.py that are used here."""

    def __init__(self, root):
        self.root = Path(root)
        self.log_path = self.root / "trainer.log"
        self.checkpoints_dir = self.root / "checkpoints"
        self.out_dir = self.root / "out"
        self.order = json.loads((self.root / "order.json").read_text())
        self.script = script_of(self.order["spec"])


def script_of(spec):
    """What to do: `metadata.script`; else epochs of 0.1 s, and the metadata for anything else."""
    training = spec.get("training")
    if training is None:
        return json.loads(spec["metadata"].get("script", "{}"))
    steps = training.get("steps") or (training.get("epochs") or 10) * STEPS_AN_EPOCH
    own = {"steps": steps, "checkpoint_every": STEPS_AN_EPOCH, "step_seconds": 0.01}
    return {**own, **{name: json.loads(text) for name, text in spec["metadata"].items()}}


class EventWriter:
    """Appends to events.jsonl as redkiln.events does."""

    def __init__(self, jobdir):
        path = jobdir.root / "events.jsonl"
        content = path.read_bytes() if path.exists() else b""
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.ftruncate(self.fd, content.rfind(b"\n") + 1)

    def write(self, kind, **data):
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        os.write(self.fd, json.dumps({"at": at, "kind": kind, "data": data}).encode() + b"\n")


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
                export(JobDir(line.strip()), is_warm=True)
        else:
            export(JobDir(sys.argv[2]), is_warm=False)
        return
    if sys.argv[2] == "--spare":
        print("ready", flush=True)
        with socket.socket(fileno=os.dup(0)) as channel:
            line, *_ = socket.recv_fds(channel, 4096, 64)
        if not line:
            return
        line = line.decode()
        jobdir = JobDir(line.strip())
        log = os.open(jobdir.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        train(jobdir, is_warm=True)
    else:
        train(JobDir(sys.argv[2]), is_warm=False)


def train(jobdir, *, is_warm):
    order, script = jobdir.order, jobdir.script
    if not script.get("deaf"):
        signal.signal(signal.SIGTERM, on_sigterm)
    else:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # see eat_memory
    events = EventWriter(jobdir)
    start = 0
    if order["resume"]:
        manifest = (jobdir.checkpoints_dir / order["resume"]).with_suffix(".json")
        start = json.loads(manifest.read_text())["step"]
    jobdir.checkpoints_dir.mkdir(exist_ok=True)
    fingerprint = order["dataset"] and order["dataset"]["fingerprint"]
    print(f"warm={is_warm} start={start} dataset={fingerprint}", flush=True)
    print("secrets", sorted(name for name in os.environ if "KEY" in name or "BROKER" in name))
    masks = {name: os.environ[name] for name in sorted(os.environ) if "VISIBLE" in name}
    print(f"masks {masks} gpus={order['num_gpus']} limit={order['memory_limit_bytes']}")
    print("tunables", os.environ.get("GLIBC_TUNABLES"))
    print("denied", json.dumps(order["denied"]))
    print(f"opens {order['engine_device']}", flush=True)
    print("leases", sorted(held_locks()), flush=True)
    if "training" in order["spec"]:
        events.write("resolved", spec=order["spec"], environment={})
    if script.get("rehearse"):
        events.write("phase", phase="rehearsing")
    events.write("phase", phase="training")
    steps = start if order["is_finishing"] else script.get("steps", 10)
    for step in range(start + 1, steps + 1):
        if stopped:
            checkpoint(jobdir, events, step - 1)
            sys.exit(EXIT_STOPPED)
        time.sleep(script.get("step_seconds", 0.005))
        if step == script.get("hang_at"):
            time.sleep(3600)
        if "chatter_bytes" in script:
            print("c" * script["chatter_bytes"], flush=True)
        if step == script.get("eat_at"):
            eat_memory()
        preview = leave_preview(jobdir, step) if step == script.get("preview_at") else None
        where = {"step": step, "steps": steps, "fraction": step / steps}
        events.write("progress", **where, eta_seconds=script.get("eta_seconds"), preview=preview)
        events.write("metrics", points={"train/loss": [[step, 1 / step]]})
        if step % script.get("checkpoint_every", 5) == 0:
            checkpoint(jobdir, events, step)
        if step == script.get("die_at") and start < step:
            die(script["how"], events)
    for path, content in script.get("leave", {}).items():
        Path(path).write_text(content)
    if order["spec"]["task"] == "benchmark":  # it exports nothing, so it leaves everything itself
        leave_files(jobdir, events)
        return
    (jobdir.root / "trained.json").write_text("{}")
    if script.get("crash_after"):
        os.kill(os.getpid(), signal.SIGSEGV)


def eat_memory():
    """Wait for SIGUSR1, and then use memory until the kernel ends this process."""
    signal.sigtimedwait({signal.SIGUSR1}, 60)
    eaten = [b"x" * 2**20 for _ in range(1024)]
    sys.exit(f"{len(eaten)} MiB were not too much")


def leave_preview(jobdir, step):
    (jobdir.root / "preview").mkdir(exist_ok=True)
    (jobdir.root / "preview" / "step-3.png").write_bytes(b"a picture")
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
        os.write(events.fd, b'{"at":"2026')
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
    epoch = step // jobdir.script.get("checkpoint_every", 5)
    events.write("checkpoint", step=step, epoch=epoch, file=name, is_best=False, metrics={})


def export(jobdir, *, is_warm):
    events = EventWriter(jobdir)
    events.write("message", text=f"export warm={is_warm}")
    events.write("phase", phase="exporting")
    time.sleep(jobdir.script.get("export_seconds", 0))
    if jobdir.script.get("leave_stray"):
        own = {**os.environ, "REDKILN_OUT": f"{jobdir.root}/script/out"}
        stray = subprocess.Popen(["sleep", "120"], env=own, start_new_session=True)
        events.write("message", text=f"stray={stray.pid}")
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
    listed = jobdir.script.get("listed", json.dumps(outputs))
    (jobdir.out_dir / "artifacts.json").write_text(listed)


main()
