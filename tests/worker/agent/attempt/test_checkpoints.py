import hashlib
import json
import threading
import time
from contextlib import contextmanager

import pytest

from redkiln.protocol import CheckpointReceipt, CheckpointRef
from tests.waiting import wait_for
from worker.agent.attempt.checkpoints import (
    Announced,
    CheckpointUploader,
    enqueue,
    fetch_checkpoints,
    name_file,
)
from worker.agent.client import Refused, ServiceAway, Superseded
from worker.agent.stopping import StopReason, StopSignal


class Stored:
    """Checkpoints that the service has, by their digests, and those that were asked for."""

    def __init__(self):
        self.blobs, self.asked = {}, []

    def add(self, step, *, is_best=False, is_damaged=False, is_lost=False, **manifest):
        content = f"step {step}".encode()
        sha256 = hashlib.sha256(content).hexdigest()
        if not is_lost:
            self.blobs[sha256] = content[:-1] if is_damaged else content
        return CheckpointRef(
            step=step,
            sha256=sha256,
            size_bytes=len(content),
            manifest=manifest,
            is_best=is_best,
        )

    @contextmanager
    def open_blob(self, sha256, *, start):
        self.asked.append(sha256)
        if sha256 not in self.blobs:
            raise Refused(404, code="not_found", detail="the job has no such checkpoint")
        yield start, iter([self.blobs[sha256][start:]])


@pytest.mark.parametrize(
    ("offered", "taken", "there", "lost"),
    [
        ([], None, [], []),
        ([(30, {}), (20, {}), (10, {})], 30, [30], []),
        ([(30, {}), (20, {}), (10, {"is_best": True})], 30, [10, 30], []),
        ([(30, {"is_best": True}), (20, {}), (10, {})], 30, [30], []),
        ([(30, {"is_damaged": True}), (20, {}), (10, {})], 20, [20], [30]),
        ([(30, {"is_damaged": True, "is_best": True}), (20, {}), (10, {})], 20, [20], [30]),
        ([(30, {"is_lost": True}), (20, {"is_damaged": True}), (10, {})], 10, [10], [30, 20]),
        ([(30, {}), (10, {"is_best": True, "is_lost": True})], 30, [30], [10]),
        ([(30, {"is_lost": True})], None, [], [30]),
    ],
)
def test_the_newest_whole_checkpoint_and_the_best_before_it_are_fetched(
    tmp_path, stop, offered, taken, there, lost
):
    stored, told = Stored(), []
    refs = [stored.add(step, **facts) for step, facts in offered]
    found = fetch_checkpoints(refs, tmp_path, client=stored, stop=stop, warn=told.append)
    assert (None if found is None else found.step) == taken
    assert sorted(path.name for path in tmp_path.glob("*.safetensors")) == [
        at(step).file for step in there
    ]
    assert sorted(path.stem for path in tmp_path.glob("*.json")) == [
        at(step).file.removesuffix(".safetensors") for step in there
    ]
    assert [text.partition(" could")[0] for text in told] == [
        f"The checkpoint of step {step}" for step in lost
    ]
    asked = {ref.step for ref in refs if ref.sha256 in stored.asked}
    assert asked == {*there, *lost}, "none is fetched for nothing"


def test_a_scripts_checkpoint_is_a_packed_folder():
    assert name_file(Stored().add(3, format="folder")) == "step-000000000003.tar"


def at(step, is_best=False):
    return Announced(step, f"step-{step:012d}.safetensors", is_best)


@pytest.mark.parametrize(
    ("waiting", "new", "left"),
    [
        ([], at(1), [at(1)]),
        ([at(1)], at(2), [at(2)]),
        ([at(1, True)], at(2), [at(1, True), at(2)]),
        ([at(1, True), at(2)], at(3), [at(1, True), at(3)]),
        ([at(1, True), at(2)], at(3, True), [at(3, True)]),
        ([at(1, True)], at(1, True), [at(1, True)]),
    ],
)
def test_the_newest_and_the_best_wait_in_order(waiting, new, left):
    assert enqueue(waiting, new) == left


class Store:
    def __init__(self):
        self.blobs, self.steps, self.errors = {}, [], []
        self.go = threading.Event()
        self.go.set()
        self.reported_until = 0

    def wait_reported(self, end_offset, timeout_seconds):
        is_reported = self.reported_until >= end_offset
        return is_reported or (time.sleep(min(timeout_seconds, 0.01)) or False)

    def has_blob(self, sha256):
        return sha256 in self.blobs

    def put_blob(self, sha256, content):
        assert self.go.wait(60)
        if self.errors:
            raise self.errors.pop(0)
        self.blobs[sha256] = content.read()

    def commit_checkpoint(self, commit):
        self.steps.append(commit.step)
        return CheckpointReceipt(kept_steps=self.steps[-2:])


@pytest.fixture
def stop():
    signal = StopSignal()
    yield signal
    signal.close()


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def uploader(store, tmp_path, stop):
    uploader = CheckpointUploader(store, tmp_path, stop, store.wait_reported)
    uploader.start()
    yield uploader
    store.go.set()
    uploader.halt()


def write(folder, step, *, is_best=False):
    content = f"step {step}".encode()
    item = at(step, is_best)
    (folder / item.file).write_bytes(content)
    manifest = {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
    (folder / item.file).with_suffix(".json").write_text(json.dumps(manifest))
    return {"step": step, "file": item.file, "is_best": is_best}


def test_checkpoints_are_uploaded_and_committed(uploader, store, tmp_path):
    uploader.offer(write(tmp_path, 1), events_end=0)
    assert uploader.drain(timeout_seconds=60)
    assert store.steps == [1]
    assert list(store.blobs.values()) == [b"step 1"]


def test_during_an_upload_only_the_newest_waits(uploader, store, tmp_path):
    store.go.clear()
    uploader.offer(write(tmp_path, 1), events_end=0)
    time.sleep(0.05)
    for step in (2, 3, 4):
        uploader.offer(write(tmp_path, step, is_best=step == 2), events_end=0)
    assert not uploader.drain(timeout_seconds=0.05)
    store.go.set()
    assert uploader.drain(timeout_seconds=60)
    assert store.steps == [1, 2, 4]


def test_bytes_that_the_service_has_are_not_sent_again(uploader, store, tmp_path):
    store.blobs[hashlib.sha256(b"step 1").hexdigest()] = b"kept"
    uploader.offer(write(tmp_path, 1), events_end=0)
    assert uploader.drain(timeout_seconds=60)
    assert (store.steps, list(store.blobs.values())) == ([1], [b"kept"])


def test_a_checkpoint_that_the_trainer_removed_is_skipped(uploader, store, tmp_path):
    data = write(tmp_path, 1)
    (tmp_path / data["file"]).unlink()
    uploader.offer(data, events_end=0)
    uploader.offer(write(tmp_path, 2), events_end=0)
    assert uploader.drain(timeout_seconds=60)
    assert store.steps == [2]


def test_a_service_that_is_away_is_asked_again(uploader, store, tmp_path):
    store.errors = [ServiceAway("x")]
    uploader.offer(write(tmp_path, 1), events_end=0)
    assert uploader.drain(timeout_seconds=60)
    assert store.steps == [1]


def test_a_refused_checkpoint_does_not_end_training(uploader, store, tmp_path, stop):
    store.errors = [Refused(422, code="x", detail="x")]
    for step in (1, 2):
        uploader.offer(write(tmp_path, step), events_end=0)
        assert uploader.drain(timeout_seconds=60)
    assert store.steps == [2]
    assert stop.reason is None


def test_a_superseded_upload_stops_the_attempt(uploader, store, tmp_path, stop):
    store.errors = [Superseded("x")]
    uploader.offer(write(tmp_path, 1), events_end=0)
    assert uploader.drain(timeout_seconds=60)
    assert stop.reason == StopReason.SUPERSEDED


def test_a_checkpoint_is_committed_after_the_events_before_it_are_reported(
    uploader, store, tmp_path
):
    uploader.offer(write(tmp_path, 1), events_end=100)
    wait_for(lambda: store.blobs)
    store.reported_until = 99
    assert not uploader.drain(timeout_seconds=0.05)
    assert store.steps == []
    store.reported_until = 100
    assert uploader.drain(timeout_seconds=60)
    assert store.steps == [1]


def test_the_end_of_an_attempt_ends_the_wait_for_a_report(uploader, store, tmp_path):
    uploader.offer(write(tmp_path, 1), events_end=100)
    wait_for(lambda: store.blobs)
    uploader.halt()
    assert store.steps == []
