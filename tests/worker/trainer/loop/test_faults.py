"""Faults that break a run: the resumed run has the same losses as an undisturbed one."""

import errno
import os
import resource
import signal

import pytest
import torch

from redkiln.failure import FailureCode
from tests.faults.disks import small_disk
from worker.checkpoints import checkpoint
from worker.checkpoints.checkpoint import CheckpointStore
from worker.jobdir import EXIT_FAILED
from worker.process.lifetime import Stopped, StopSignal
from worker.tasks.train import run_job


@pytest.fixture
def undisturbed(make_job, start, losses):
    """The losses of the job that nothing happens to."""
    job_dir = make_job("undisturbed", training={"epochs": 3})
    start(job_dir)[0].run()
    return losses(job_dir)


def stop_at(start, job_dir, step):
    loop, _ = start(job_dir, stop_after=step)
    with pytest.raises(Stopped):
        loop.run()
    return CheckpointStore(job_dir.checkpoints_dir).manifests()[-1]


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[:-1]])
def test_a_truncated_newest_checkpoint_loses_only_its_own_steps(
    make_job, start, losses, undisturbed, damage
):
    job_dir = make_job("job", training={"epochs": 3})
    newest = stop_at(start, job_dir, 9)
    path = job_dir.checkpoints_dir / newest.name
    path.write_bytes(damage(path.read_bytes()))
    resumed, _ = start(make_job("job", training={"epochs": 3}, order={"resume": newest.name}))
    assert resumed.step == 6
    resumed.run()
    assert losses(job_dir) == undisturbed


def test_a_full_disk_while_saving_keeps_the_previous_checkpoint(
    make_job, start, losses, events, undisturbed, monkeypatch
):
    job_dir = make_job("job", training={"epochs": 3})
    write, calls = checkpoint.write_tensors, []

    def fill_disk(file, tensors):
        calls.append(1)
        if len(calls) == 2:
            file.write(b"half of it")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, tensors)

    monkeypatch.setattr(checkpoint, "write_tensors", fill_disk)
    assert run_job(job_dir, StopSignal()) == EXIT_FAILED
    assert events(job_dir, "failure")[-1]["data"]["code"] == FailureCode.DISK_FULL
    store = CheckpointStore(job_dir.checkpoints_dir)
    assert [m.step for m in store.manifests()] == [6]
    assert sorted(p.suffix for p in job_dir.checkpoints_dir.iterdir()) == [".json", ".safetensors"]
    order = {"resume": store.manifests()[0].name}
    start(make_job("job", training={"epochs": 3}, order=order))[0].run()
    assert losses(job_dir) == undisturbed


def test_a_file_size_limit_leaves_no_partial_file(tmp_path):
    store = CheckpointStore(tmp_path)
    more = {"epoch": 0, "is_best": False, "metrics": {}, "threads": 1, "device": "cpu", "state": {}}
    store.save({"model/w": torch.zeros(10)}, step=1, **more)
    before = sorted(path.name for path in tmp_path.iterdir())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, hard))
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            store.save({"model/w": torch.zeros(2**20)}, step=1, **more)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert store.load("step-000000000001").manifest.step == 1


def test_a_disk_without_room_leaves_the_earlier_checkpoint(tmp_path):
    more = {"epoch": 0, "is_best": False, "metrics": {}, "threads": 1, "device": "cpu", "state": {}}
    with small_disk(tmp_path, size="256k") as is_small:
        if not is_small:
            pytest.skip("only root can mount a small disk")
        store = CheckpointStore(tmp_path)
        store.save({"model/w": torch.zeros(10)}, step=1, **more)
        before = sorted(path.name for path in tmp_path.iterdir())
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            store.save({"model/w": torch.zeros(2**20)}, step=2, **more)
        assert sorted(path.name for path in tmp_path.iterdir()) == before
        assert store.load("step-000000000001").manifest.step == 1


def test_a_stop_received_while_saving_keeps_the_checkpoint(
    make_job, start, losses, undisturbed, monkeypatch
):
    job_dir = make_job("job", training={"epochs": 3})
    stop = StopSignal()
    before = signal.signal(signal.SIGTERM, stop._on_sigterm)
    write = checkpoint.write_tensors

    def write_and_hear(file, tensors):
        os.kill(os.getpid(), signal.SIGTERM)
        return write(file, tensors)

    monkeypatch.setattr(checkpoint, "write_tensors", write_and_hear)
    loop, _ = start(job_dir)
    loop._should_stop = lambda: stop.requested
    try:
        with pytest.raises(Stopped), stop.deferred():
            loop.run()
    finally:
        signal.signal(signal.SIGTERM, before)
        monkeypatch.undo()
    (manifest,) = CheckpointStore(job_dir.checkpoints_dir).manifests()
    assert manifest.step == 6
    order = {"resume": manifest.name}
    start(make_job("job", training={"epochs": 3}, order=order))[0].run()
    assert losses(job_dir) == undisturbed
