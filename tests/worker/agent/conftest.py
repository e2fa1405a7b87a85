"""A small real service, in a thread, that speaks redkiln/protocol.py; and a worker against it."""

import hashlib
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from redkiln.protocol import (
    CheckpointCommit,
    ClaimRequest,
    FinishRequest,
    HelloRequest,
    ReportRequest,
    StatusRequest,
)
from tests.forked import WarmProcess
from tests.waiting import wait_for
from tests.worker.agent.http_server import HttpServer
from worker.agent.agent import Agent
from worker.settings import WorkerSettings

KEY = "rk_worker_key"
DIGITS = {"id": "builtin:digits", "name": "digits", "kind": "builtin"}
FAKE_TRAINER = (sys.executable, "-S", str(Path(__file__).parent / "fake_trainer.py"))
"""It needs no packages, which take most of the time in which Python starts."""


class FakeService(HttpServer):
    """Attempts are given in order; what comes of them is kept to be looked at."""

    def __init__(self):
        self.lock = threading.RLock()
        self.hellos, self.claims, self.reports = [], [], []
        self.statuses = []
        self.waiting, self.given = [], {}
        self.events, self.log = {}, {}
        self.blobs, self.puts, self.heads = {}, [], []
        self.commits, self.finishes = {}, {}
        self.cancelled, self.superseded = set(), set()
        self.dataset, self.index = b"", b""
        self.previews = []
        self.ranges = []
        self.cut_dataset_at = None
        self.is_away = False
        self.protocol_mismatch = False
        self.lose_claim_answers = 0
        self.report_seconds = 0.2
        self.job_status = "succeeded"
        self.max_duration_seconds = None
        self.serve(_handler(self))

    def add_job(
        self,
        *,
        task="image-classification",
        resources=None,
        metadata=None,
        checkpoints=(),
        dataset=None,
        max_duration_seconds=None,
        **script,
    ):
        """Queue a job; `script` says what the fake trainer does."""
        has_data = task != "benchmark"
        spec = {
            "task": task,
            "resources": resources or {},
            "metadata": {"script": json.dumps(script), **(metadata or {})},
            **({"dataset": "builtin:digits"} if has_data else {}),
        }
        attempt_id = f"att_{len(self.given) + len(self.waiting) + 1}"
        claim = {
            "attempt_id": attempt_id,
            "job_id": attempt_id.replace("att", "job"),
            "job_name": "a job",
            "number": 1,
            "fence": 1,
            "token": f"token-{attempt_id}",
            "spec": spec,
            "dataset": dataset or DIGITS if has_data else None,
            "checkpoints": list(checkpoints),
            "lease_seconds": 5,
            "report_seconds": self.report_seconds,
            "max_duration_seconds": max_duration_seconds,
        }
        with self.lock:
            self.waiting.append(claim)
        return attempt_id

    def kinds(self, attempt_id):
        return [event.kind.value for event in self.events.get(attempt_id, [])]

    def wait_for(self, condition, *, seconds=60.0):
        return wait_for(condition, seconds=seconds)

    def wait_for_finish(self, attempt_id, *, seconds=60.0):
        return self.wait_for(lambda: self.finishes.get(attempt_id), seconds=seconds)

    def hello(self, body):
        if self.protocol_mismatch:
            return 426, {"code": "protocol_mismatch", "detail": "version 2 is spoken here"}
        self.hellos.append(HelloRequest.model_validate_json(body))
        return 200, {"poll_seconds": 0.05}

    def status(self, body):
        self.statuses.append(StatusRequest.model_validate_json(body))
        return 200, {"status_seconds": 0.1}

    def claim(self, body):
        request = ClaimRequest.model_validate_json(body)
        self.claims.append(request)
        if request.claim_id not in self.given:
            if not self.waiting or self._needs_busy(self.waiting[0], request):
                return 204, None
            self.given[request.claim_id] = self.waiting.pop(0)
        if self.lose_claim_answers:
            self.lose_claim_answers -= 1
            return None, None
        return 200, self.given[request.claim_id]

    def _needs_busy(self, claim, request):
        return claim["spec"]["resources"].get("engine") in request.busy

    def report(self, attempt_id, body):
        request = ReportRequest.model_validate_json(body)
        self.reports.append((attempt_id, time.monotonic(), request))
        known = self.events.setdefault(attempt_id, [])
        if request.first_seq > len(known) + 1:
            return 409, {"code": "sequence_gap", "expected_seq": len(known) + 1}
        known.extend(request.events[len(known) + 1 - request.first_seq :])
        log = self.log.setdefault(attempt_id, bytearray())
        if request.log is not None and request.log.offset == len(log):
            log.extend(request.log.data)
        return 200, {
            "acked_seq": len(known),
            "log_size": len(log),
            "lease_seconds": 5,
            "report_seconds": self.report_seconds,
            "command": "cancel" if attempt_id in self.cancelled else "continue",
        }

    def commit(self, attempt_id, body):
        commit = CheckpointCommit.model_validate_json(body)
        assert commit.sha256 in self.blobs
        self.commits.setdefault(attempt_id, []).append(commit)
        return 200, {"kept_steps": [commit.step]}

    def finish(self, attempt_id, body):
        request = FinishRequest.model_validate_json(body)
        assert request.last_seq == len(self.events.get(attempt_id, []))
        self.finishes[attempt_id] = request
        return 200, {"job_status": self.job_status}


def _handler(service):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with service.lock:
                self.answer(*self.route(body))

        def do_PUT(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            sha256 = self.path.rsplit("/", 1)[1]
            with service.lock:
                refusal = self.refuse()
                if refusal:
                    return self.answer(*refusal)
                if sha256.startswith("preview?"):
                    service.previews.append((sha256.removeprefix("preview?"), body))
                    return self.answer(204, None)
                if hashlib.sha256(body).hexdigest() != sha256:
                    return self.answer(422, {"code": "digest_mismatch"})
                service.blobs[sha256] = body
                service.puts.append(sha256)
            return self.answer(201, {})

        def do_HEAD(self):
            sha256 = self.path.rsplit("/", 1)[1]
            service.heads.append(sha256)
            refusal = self.refuse()
            self.answer(refusal[0] if refusal else 200 if sha256 in service.blobs else 404, None)

        def do_GET(self):
            refusal = self.refuse()
            if refusal:
                return self.answer(*refusal)
            if self.path.endswith("/index"):
                return self.send(service.index)
            if self.path.endswith("/dataset"):
                return self.send(service.dataset, cut_at=service.cut_dataset_at)
            content = service.blobs.get(self.path.rsplit("/", 1)[1])
            return (
                self.answer(404, {"code": "not_found"}) if content is None else self.send(content)
            )

        def route(self, body):
            if refusal := self.refuse():
                return refusal
            if self.path.startswith("/v1/workers/"):
                if self.headers["Authorization"] != f"Bearer {KEY}":
                    return 401, {"code": "unauthorized"}
                return getattr(service, self.path.rsplit("/", 1)[1])(body)
            attempt_id, action = self.path.split("/")[3:5]
            answers = {
                "report": service.report,
                "checkpoints": service.commit,
                "finish": service.finish,
            }
            return answers[action](attempt_id, body)

        def refuse(self):
            if service.is_away:
                return 503, {"code": "unavailable"}
            if self.path.startswith("/v1/attempts/"):
                attempt_id = self.path.split("/")[3]
                if attempt_id in service.superseded:
                    return 409, {"code": "superseded", "detail": "given to another worker"}
                if self.headers["Authorization"] != f"Bearer token-{attempt_id}":
                    return 401, {"code": "unauthorized"}
            return None

        def answer(self, status, body):
            if status is None:  # the answer is lost on its way
                self.close_connection = True
                return
            content = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def send(self, content, *, cut_at=None):
            start = 0
            if asked := self.headers["Range"]:
                service.ranges.append(asked)
                start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start and start >= len(content):
                return self.answer(416, {"code": "range"})
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            if cut_at is not None and start < cut_at:
                self.wfile.write(content[start:cut_at])
                self.close_connection = True
                return None
            self.wfile.write(content[start:])
            return None

    return Handler


@pytest.fixture(scope="session")
def warm_mlflow():
    """A process that has imported MLflow's client."""
    options = {"environ": {"MLFLOW_DISABLE_TELEMETRY": "true"}}
    process = WarmProcess(["worker.agent.tracking"], **options)
    yield process
    process.close()


@pytest.fixture
def fork_mlflow(warm_mlflow, monkeypatch):
    """Forks what reports to MLflow; a cold process imports for 1.5 s of CPU time."""
    monkeypatch.setattr("worker.agent.tracking.follower.subprocess", warm_mlflow.subprocess)


@pytest.fixture
def service():
    fake = FakeService()
    yield fake
    fake.close()


@pytest.fixture
def settings(tmp_path, service):
    return WorkerSettings(
        service_url=service.url,
        worker_key=KEY,
        worker_dir=tmp_path / "worker",
        broker_url=None,
        trainer_command=[*FAKE_TRAINER, "train"],
        export_command=[*FAKE_TRAINER, "export"],
        inventory_command=[*FAKE_TRAINER, "inventory"],
        selftest_command=[],
        lock_dir=tmp_path / "locks",
        topology_dir=tmp_path / "no-topology",
        drm_dir=tmp_path / "no-cards",
        cancel_grace_seconds=1.0,
        shutdown_grace_seconds=5.0,
    )


@pytest.fixture
def start_agent(settings):
    agents = []

    def start(**changes):
        fatal = threading.Event()
        agent = Agent(settings.model_copy(update=changes), on_fatal=fatal.set)
        agent.on_fatal_event = fatal
        agent.start()
        agents.append(agent)
        return agent

    yield start
    for agent in agents:
        agent.ask_to_stop()
        agent.join()


@pytest.fixture
def show_gpus(monkeypatch):
    """Has torch open GPUs (tests.worker.hardware.trees) in the agents that are started then."""

    def show(gpus, *, arch="gfx1100"):
        views = [
            {"index": index, "name": "a card", "arch": arch, "pci_address": gpu.pci_address}
            for index, gpu in enumerate(gpus)
        ]
        monkeypatch.setenv("REDKILN_TRAINER_FAKE_GPUS", json.dumps(views))

    return show
