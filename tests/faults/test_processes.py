"""Trainers that die, hang or use up memory, and a service that is killed under load."""

import os
import signal
import sqlite3
import sys
import threading
import time
import uuid
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from native.processes import Part
from tests.integration.conftest import FAKES, SHORT_TIMES

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("faults")]

CGROUPS = Path("/sys/fs/cgroup")


def script(**settings):
    """Metadata that the stand-in for the trainer reads as its settings."""
    import json

    return {name: json.dumps(value) for name, value in settings.items()}


@pytest.mark.parametrize(("how", "code"), [("SIGSEGV", "crashed"), ("say:out of luck", "internal")])
def test_a_trainer_that_dies_fails_with_its_cause_and_keeps_what_it_wrote(faulty, how, code):
    dying = script(die_at=25, how=how)
    job_id = faulty.submit(epochs=5, metadata=dying, retry={"failures": 0})
    job = faulty.wait_for_end(job_id)
    assert (job.status, job.reason.code) == ("failed", code)
    assert faulty.committed_steps(job_id) == [10, 20]
    assert "warm=" in faulty.log(job_id)
    assert list(faulty.losses(job_id)) == list(range(1, 26))


def test_the_kernel_kills_a_trainer_for_memory_and_the_job_says_so(faulty):
    job_id = faulty.submit(epochs=3, metadata=script(eat_at=5), retry={"failures": 0})
    faulty.wait_for(lambda: faulty.trainer_of() is not None)
    trainer = faulty.trainer_of()
    with memory_group(limit_bytes=64 * 1024**2) as join:
        join(trainer.pid)
        trainer.send_signal(signal.SIGUSR1)  # it waits for this before it eats
        job = faulty.wait_for_end(job_id)
    assert (job.status, job.reason.code) == ("failed", "host_out_of_memory")


@contextmanager
def memory_group(*, limit_bytes):
    """A control group with little memory; a function that moves a process into it."""
    is_old = (CGROUPS / "memory").is_dir()
    folder = CGROUPS / ("memory" if is_old else "") / f"redkiln-test-{os.getpid()}"
    try:
        folder.mkdir()
        name = "memory.limit_in_bytes" if is_old else "memory.max"
        (folder / name).write_text(str(limit_bytes))
    except OSError as error:
        with suppress(OSError):
            folder.rmdir()
        pytest.skip(f"only root can limit the memory of a control group: {error}")
    try:
        yield lambda pid: (folder / "cgroup.procs").write_text(str(pid))
    finally:
        folder.rmdir()


def test_a_service_killed_under_load_loses_no_acknowledged_job(faulty):
    acknowledged, lock, is_over = [], threading.Lock(), threading.Event()

    def keep_submitting(client):
        while not is_over.is_set():
            name, key = f"load {uuid.uuid4().hex}", uuid.uuid4().hex
            while not is_over.is_set():
                with suppress(httpx.TransportError):
                    once = {"Idempotency-Key": key}
                    answer = client.post("/v1/jobs", json=spec(name), headers=once)
                    if answer.status_code in (200, 202):
                        with lock:
                            acknowledged.append((name, answer.json()["id"]))
                        break

    headers = {"Authorization": f"Bearer {faulty.stack.admin_key}"}
    with httpx.Client(base_url=faulty.stack.url, headers=headers, timeout=30) as client:
        threads = [threading.Thread(target=keep_submitting, args=(client,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(2):
                wanted = len(acknowledged) + 15
                faulty.wait_for(lambda wanted=wanted: len(acknowledged) >= wanted)
                faulty.stack.service.kill()
                faulty.stack.service.restart()
                faulty.stack.wait_for_service()
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
    stored = [(job.name, job.id) for job in faulty.client.jobs() if job.name.startswith("load ")]
    assert set(acknowledged) <= set(stored)
    assert len(stored) == len({name for name, _ in stored})
    faulty.client.cancel_all(search="load")


def spec(name):
    return {"dataset": "builtin:digits", "model": "amdnet", "name": name,
            "training": {"epochs": 1}}  # fmt: skip


def test_a_database_that_another_program_locks_is_503_and_then_works(faulty):
    place = faulty.stack.state_dir / "redkiln.db"
    with closing(sqlite3.connect(place, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        refused = faulty.ask_to_train("locked")
        other.execute("ROLLBACK")
    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) > 0
    assert "locked" not in {job.name for job in faulty.client.jobs()}
    faulty.succeed_whole(faulty.submit(epochs=1), steps=10)


def test_a_cancel_that_races_the_end_has_one_winner(faulty):
    for pause in (0.05, 0.15, 0.25, 0.35):
        job_id = faulty.submit(epochs=1)
        faulty.wait_for(lambda job_id=job_id: faulty.client.job(job_id).phase == "exporting"
                        or faulty.client.job(job_id).is_terminal)  # fmt: skip
        time.sleep(pause)
        answer = faulty.ask("POST", f"/v1/jobs/{job_id}/cancel")
        job = faulty.wait_for_end(job_id)
        if job.status == "cancelled":
            assert answer.status_code in (200, 202)
            assert "model.onnx" not in faulty.artifact_names(job_id)
        else:
            assert job.status == "succeeded"
            assert answer.status_code in (200, 202, 409)
        assert faulty.client.job(job_id) == job


def test_a_job_that_kills_its_workers_is_quarantined(faulty):
    job_id = faulty.submit(epochs=3, retry={"lost_workers": 20}, metadata=script(hang_at=1))
    worker = faulty.stack.workers[0]
    for lost in range(3):
        running = ["lost"] * lost + ["running"]
        faulty.wait_for(lambda running=running: faulty.statuses(job_id) == running)
        faulty.wait_for(lambda: faulty.trainer_of() is not None)
        worker.kill()
        worker.restart()
        faulty.stack.wait_for_worker(worker)
    job = faulty.wait_for_end(job_id)
    assert (job.status, job.reason.code) == ("failed", "quarantined")
    faulty.succeed_whole(faulty.submit(epochs=1), steps=10)


def test_a_trainer_that_makes_no_step_is_killed(faulty):
    short = {"REDKILN_STALL_SECONDS": "2", "REDKILN_SERVICE_URL": faulty.proxy.url}
    worker = faulty.stack.add_worker(**short)
    faulty.stack.wait_for_worker(worker)
    faulty.stack.workers[0].signal(signal.SIGSTOP)
    job_id = faulty.submit(epochs=3, metadata=script(hang_at=15), retry={"failures": 0})
    job = faulty.wait_for_end(job_id)
    faulty.stack.workers[0].signal(signal.SIGCONT)
    assert (job.status, job.reason.code) == ("failed", "no_progress")
    assert faulty.committed_steps(job_id) == [10]


def test_a_key_that_is_revoked_in_training_stops_the_attempt_and_another_worker_resumes(
    faulty, tmp_path
):
    created = faulty.ask("POST", "/v1/keys", json={"name": "brief", "scope": "worker"}).json()
    key_path = tmp_path / "worker.key"
    key_path.write_text(created["secret"])
    own = {"REDKILN_WORKER_KEY_FILE": str(key_path), "REDKILN_SERVICE_URL": faulty.proxy.url}
    worker = faulty.stack.add_worker(**own)
    faulty.stack.wait_for_worker(worker)
    other = faulty.stack.workers[0]
    other.signal(signal.SIGSTOP)
    job_id = faulty.submit(epochs=20)
    faulty.wait_for_training(job_id)
    trainer = faulty.trainer_of(worker)
    assert faulty.ask("DELETE", f"/v1/keys/{created['id']}").status_code == 204
    faulty.wait_for(lambda: not trainer.is_running())
    other.signal(signal.SIGCONT)
    faulty.wait_for_success(job_id)
    assert faulty.statuses(job_id) == ["lost", "succeeded"]
    resumed = faulty.client.job(job_id).attempts[1].resumed_from_step
    assert resumed in faulty.committed_steps(job_id)
    faulty.assert_whole(job_id, steps=200)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("import redkiln.version as v; v.__version__ = '9.9.9'", "it gets no new jobs"),
        ("import redkiln.protocol as p; p.PROTOCOL_VERSION = 99", "install the same release"),
    ],
    ids=["another release", "another protocol"],
)
def test_a_worker_of_another_release_gets_no_job(faulty, change, words):
    worker = faulty.stack.workers[0]
    worker.signal(signal.SIGSTOP)
    with other_worker(faulty, change) as other:
        logs = lambda: other.read_log() + faulty.stack.service.read_log()  # noqa: E731
        faulty.wait_for(lambda: words in logs())
        job_id = faulty.submit(epochs=1)
        for _ in range(3):
            assert faulty.client.job(job_id).status == "queued"
            time.sleep(0.5)  # it asks for work every 0.5 s
        worker.signal(signal.SIGCONT)
        faulty.succeed_whole(job_id, steps=10)


@contextmanager
def other_worker(site, change):
    """A worker whose code differs in one value."""
    program = f"import runpy, sys; {change}; runpy.run_module('worker', run_name='__main__')"
    settings = {
        "REDKILN_SERVICE_URL": site.stack.url,
        "REDKILN_WORKER_KEY_FILE": str(site.stack.state_dir / "keys" / "worker.key"),
        "REDKILN_WORKER_DIR": str(site.stack.state_dir / "other"),
    }
    part = Part(
        "other worker",
        [sys.executable, "-c", program],
        environment={**os.environ, **SHORT_TIMES, **FAKES, **settings},
        log_path=site.stack.logs_dir / "other.log",
    )
    part.start()
    try:
        yield part
    finally:
        part.kill()
