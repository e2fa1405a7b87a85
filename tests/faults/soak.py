"""`make soak`: jobs, uploads and faults for a long time, and whether anything grows.

    SOAK_MINUTES=30 python -m tests.faults.soak

Every 20 s it kills one part or jumps one clock. At the end a table shows how memory, descriptors,
threads and files of the service and the worker changed, and how many acknowledged writes are lost.
"""

# ruff: noqa: T201  a program

import itertools
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import httpx
import psutil
import pytest

from native.stack import Stack
from tests.faults.library import Faults, compile_library
from tests.integration.conftest import FAKES, SHORT_TIMES, Site

SAMPLE_SECONDS = 10.0
FAULT_SECONDS = 20.0
MOST_JOBS = 100
"""Ended jobs that are kept; the oldest are deleted, so that sizes can be flat."""
MOST_WAITING = 20
"""Jobs in the queue from which on no more are submitted, for the same reason."""
PLACES = ("redkiln.db", "redkiln.db-wal", "logs", "blobs", "staging", "worker")
"""Files and folders of the state folder that are measured one by one."""
ALLOWED = {"MiB": 8.0, "": 8.0}
"""Growth within the second half that is noise, by unit; so is growth below twice the scatter."""


@dataclass
class Ledger:
    """What the service has acknowledged, and what it must therefore still know."""

    jobs: set[str] = field(default_factory=set)
    datasets: dict[str, str] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    """Ids whose deletion was asked for: whatever the answer, they may be gone."""
    gone: set[str] = field(default_factory=set)
    num_refused: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Load:
    """Threads that submit, cancel, delete and upload, each request with a single try."""

    def __init__(self, site, ledger):
        self.site = site
        self.ledger = ledger
        self.is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(work, pause))
            for work, pause in ((self._submit, 0.5), (self._upload, 2.0), (self._tidy, 3.0))
        ]

    def start(self):
        for thread in self._threads:
            thread.start()

    def close(self):
        self.is_over.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, work, pause):
        headers = {"Authorization": f"Bearer {self.site.stack.admin_key}"}
        with httpx.Client(base_url=self.site.stack.url, headers=headers, timeout=30) as client:
            while not self.is_over.wait(pause):
                try:
                    work(client)
                except httpx.TransportError:
                    with self.ledger.lock:
                        self.ledger.num_refused += 1

    def _submit(self, client):
        waiting = client.get("/v1/jobs", params={"status": "queued", "limit": MOST_WAITING})
        if waiting.status_code != 200 or waiting.json()["has_more"]:
            return
        epochs = random.choice((1, 1, 1, 5))
        spec = {"dataset": "builtin:digits", "model": "amdnet", "training": {"epochs": epochs}}
        answer = client.post("/v1/jobs", json=spec)
        self._note(answer, lambda: self.ledger.jobs.add(answer.json()["id"]))
        if answer.status_code == 202 and random.random() < 0.1:
            client.post(f"/v1/jobs/{answer.json()['id']}/cancel")

    def _upload(self, client):
        name = f"soak-{uuid.uuid4().hex[:8]}"
        content = f"a,b,class\n{random.random()},2,x\n3,4,y\n".encode() * 50
        answer = client.post(f"/v1/datasets?name={name}", content=content,
                             headers={"Content-Type": "text/csv"})  # fmt: skip
        self._note(answer, lambda: self.ledger.datasets.update({answer.json()["id"]: name}))

    def _tidy(self, client):
        for path, known in (("jobs", self.ledger.jobs), ("datasets", self.ledger.datasets)):
            with self.ledger.lock:
                spare = sorted(set(known) - self.ledger.gone)[:-MOST_JOBS]
            for one in spare:
                with self.ledger.lock:
                    self.ledger.asked.add(one)
                status = client.delete(f"/v1/{path}/{one}").status_code
                with self.ledger.lock:
                    if status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_FOUND):
                        self.ledger.gone.add(one)
                    elif status == HTTPStatus.CONFLICT:  # it has not ended, or is in use
                        self.ledger.asked.discard(one)
                    else:
                        self.ledger.num_refused += 1

    def _note(self, answer, keep):
        with self.ledger.lock:
            if answer.status_code in (200, 201, 202):
                keep()
            else:
                self.ledger.num_refused += 1


class Breaker:
    """Kills one part after the other, and jumps clocks."""

    def __init__(self, site, faults):
        self.site = site
        self.faults = faults
        self.counts = {}

    def break_one(self, number):
        kinds = ["service", "trainer", "worker"] + (["clock"] if self.faults else [])
        kind = kinds[number % len(kinds)]
        self.counts[kind] = self.counts.get(kind, 0) + 1
        getattr(self, f"_{kind}")()

    def _service(self):
        self._restart(self.site.stack.service)
        self.site.stack.wait_for_service()

    def _worker(self):
        worker = self.site.stack.workers[0]
        self._restart(worker)
        self.site.stack.wait_for_worker(worker)

    def _restart(self, part):
        part.kill()
        part.restart()

    def _trainer(self):
        with suppress(psutil.NoSuchProcess, OSError):
            if (trainer := self.site.trainer_of()) is not None:
                os.kill(trainer.pid, signal.SIGKILL)

    def _clock(self):
        with suppress(AssertionError), self.faults.clock(random.choice((-600, 600))):
            time.sleep(5)


class Samples:
    """Figures of both processes and the state folder over time.

    A process that was killed starts small again, so a series compares equal ages: what a process
    uses is only read when it has run for at least one interval.
    """

    def __init__(self, site):
        self.site = site
        self.series = {}

    def take(self, at):
        stack = self.site.stack
        for name, part in (("service", stack.service), ("worker", stack.workers[0])):
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                self._take_process(name, psutil.Process(part.pid), at)
        self._take_folder(stack.state_dir, at)

    def _take_process(self, name, process, at):
        if time.time() - process.create_time() < SAMPLE_SECONDS:
            return
        self._add(f"{name} memory", "MiB", at, process.memory_info().rss / 2**20)
        self._add(f"{name} descriptors", "", at, process.num_fds())
        self._add(f"{name} threads", "", at, process.num_threads())

    def _take_folder(self, folder, at):
        sizes, counts = Counter(), Counter()
        paths = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
        for path in paths:
            with suppress(OSError):  # it is gone already
                if not path.is_file() or path.is_symlink():
                    continue
                place = path.relative_to(folder).parts[0]
                for kind in (place if place in PLACES else "other files", "all files"):
                    sizes[kind] += path.stat().st_size
                    counts[kind] += 1
        for name in (*PLACES, "other files", "all files"):
            self._add(name, "MiB", at, sizes[name] / 2**20)
            self._add(f"{name}: number", "", at, counts[name])

    def _add(self, name, unit, at, value):
        self.series.setdefault((name, unit), []).append((at, value))

    def rows(self):
        for (name, unit), points in self.series.items():
            late = points[len(points) // 2 :]
            if len(late) < 3:
                continue
            slope, start = statistics.linear_regression(*zip(*late, strict=True))
            scatter = statistics.stdev(value - start - slope * at for at, value in late)
            grown = slope * (late[-1][0] - late[0][0])
            is_flat = grown < max(ALLOWED[unit] + 0.05 * late[0][1], 2 * scatter)
            yield name, unit, points[0][1], max(v for _, v in points), points[-1][1], slope, is_flat


def run(minutes, folder):
    faults = build_faults(folder)
    environment = {**SHORT_TIMES, **FAKES, **(faults.environment if faults else {})}
    environment["REDKILN_LEASE_SECONDS"] = "15"
    with Stack(folder / "state", environment=environment) as stack:
        site, ledger = Site(stack), Ledger()
        load, breaker, samples = Load(site, ledger), Breaker(site, faults), Samples(site)
        load.start()
        try:
            keep_breaking(breaker, samples, seconds=minutes * 60)
        finally:
            load.close()
        settle(site)
        samples.take(minutes * 60)
        lost = count_lost(site, ledger)
        report(samples, breaker, ledger, lost)
        site.close()
    return not lost and all(row[-1] for row in samples.rows())


def build_faults(folder):
    """The library of faults, for jumps of the service's clock; None without a compiler."""
    try:
        library = compile_library(folder)
    except pytest.skip.Exception as reason:
        print(f"without jumps of the clock: {reason}")
        return None
    return Faults(library, folder / "control", below=folder / "none")


def keep_breaking(breaker, samples, *, seconds):
    began = time.monotonic()
    numbers = itertools.count()
    fault_at = FAULT_SECONDS
    while (at := time.monotonic() - began) < seconds:
        samples.take(at)
        if at >= fault_at:
            breaker.break_one(next(numbers))
            fault_at += FAULT_SECONDS
        time.sleep(max(0.0, SAMPLE_SECONDS - (time.monotonic() - began - at)))


def settle(site):
    """Every job ends; leases, clocks and processes are whole again."""
    site.ask_all_to_stop()
    site.wait_for(lambda: all(job.is_terminal for job in site.client.jobs()), seconds=180)


def count_lost(site, ledger):
    """Acknowledged jobs and data sets that are neither there nor deleted."""
    jobs = {job.id for job in site.client.jobs()}
    datasets = {one.id for one in site.client.datasets()}
    known = (ledger.jobs - jobs) | (set(ledger.datasets) - datasets)
    return known - ledger.asked


def report(samples, breaker, ledger, lost):
    num_deleted = len(ledger.gone)
    print(f"jobs {len(ledger.jobs)}, uploads {len(ledger.datasets)}, deleted {num_deleted}, "
          f"refused or cut off {ledger.num_refused}, faults {breaker.counts}")  # fmt: skip
    print(f"{'':24}{'first':>10}{'most':>10}{'last':>10}{'per hour':>12}")
    for name, unit, first, most, last, slope, is_flat in samples.rows():
        verdict = "flat" if is_flat else "GROWS"
        figures = f"{first:10.1f}{most:10.1f}{last:10.1f}{slope * 3600:12.1f}"
        print(f"{name + (f' ({unit})' if unit else ''):24}{figures}  {verdict}")
    print(f"lost acknowledged writes: {len(lost)} {sorted(lost)[:5]}")


def main():
    minutes = float(os.environ.get("SOAK_MINUTES", "30"))
    with tempfile.TemporaryDirectory(prefix="redkiln-soak-") as folder:
        is_sound = run(minutes, Path(folder))
    print("verdict:", "flat, and nothing was lost" if is_sound else "not sound; see above")
    sys.exit(not is_sound)


if __name__ == "__main__":
    main()
