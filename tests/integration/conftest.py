"""The real stack with short times, and ways to look at it and to break it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from native.stack import Stack
from redkiln.client import Client
from redkiln.status import JobStatus
from tests.integration import warm_forks
from tests.waiting import is_alive, wait_for

ROOT = Path(__file__).parents[2]
SHORT_TIMES = {
    "REDKILN_BIND": "127.0.0.1:0",
    "REDKILN_LEASE_SECONDS": "30",
    "REDKILN_REPORT_SECONDS": "0.5",
    "REDKILN_POLL_SECONDS": "1",
    "REDKILN_REAP_SECONDS": "1",
    "REDKILN_REPUBLISH_SECONDS": "2",
    "REDKILN_MIN_FREE_BYTES": "0",
    # More threads only wait for each other on a machine that is busy with tests.
    "REDKILN_THREADS": "1",
    "REDKILN_CANCEL_GRACE_SECONDS": "2",
    "REDKILN_SHUTDOWN_GRACE_SECONDS": "10",
}
FAKE_TRAINER = (sys.executable, "-S", str(ROOT / "tests/worker/agent/fake_trainer.py"))
FAKES = {
    f"REDKILN_{name.upper()}_COMMAND": json.dumps([*FAKE_TRAINER, what])
    for name, what in (("trainer", "train"), ("export", "export"), ("inventory", "inventory"))
}
"""Everything is real but what imports torch: a job of the fakes takes 0.2 s of CPU time, not 12."""


SHARED = {
    "shared_site": "fakes",
    "shared_real_site": "real",
    "shared_scripts": "scripts",
    "shared_trainer": "trainer",
}
"""What the tests of several files share: they run on one worker of xdist."""


@pytest.hookimpl(wrapper=True)  # the groups are there before xdist reads them
def pytest_collection_modifyitems(config, items):
    for item in filter(is_integration, items):
        names = [SHARED[name] for name in getattr(item, "fixturenames", ()) if name in SHARED]
        item.add_marker(pytest.mark.xdist_group(names[0] if names else item.path.stem))
    yield
    is_grouped = all("@" in item.nodeid for item in filter(is_integration, items))
    if getattr(config.option, "loadgroup", False) and not is_grouped:
        # Every process would start every stack: 250 s of CPU time more.
        raise pytest.UsageError(
            "pytest-xdist did not group the tests; use the versions of constraints.txt"
        )


def is_integration(item):
    return "tests/integration" in str(item.path)


class Site:
    """A running stack, its client, and the processes below it."""

    def __init__(self, stack, *, forks_of=None):
        self.stack = stack
        self.client = Client(stack.url, stack.admin_key)
        self.client.warns_of_data = False  # test data are small
        self._forks_of = forks_of

    def submit(self, *, epochs=3, **spec):
        training = {"epochs": epochs, "batch_size": 64, **spec.pop("training", {})}
        spec = {"dataset": "builtin:digits", "model": "amdnet", "training": training, **spec}
        return self.client.submit(spec).id

    def run_script(self, *command, script=None, **spec):
        """Have a program run; words of several lines may be indented. Its job's id."""
        words = [textwrap.dedent(word) for word in command]
        full = {"command": words, **(script or {})}
        return self.client.submit({"task": "script", "script": full, **spec}).id

    def log(self, job_id):
        return b"".join(self.client.logs(job_id)).decode(errors="replace")

    def artifact_names(self, job_id):
        return {item.name for item in self.client.artifacts(job_id)}

    def wait_for(self, condition, *, seconds=90.0):
        # Most conditions ask the service, which takes the time of what they wait for.
        return wait_for(condition, seconds=seconds, interval_seconds=0.1)

    def wait_for_end(self, job_id, *, seconds=120.0):
        self.wait_for(lambda: self.client.job(job_id).is_terminal, seconds=seconds)
        return self.client.job(job_id)

    def wait_for_success(self, job_id, *, seconds=120.0):
        """Until the job has succeeded; a failure shows its reason and the end of its log."""
        job = self.wait_for_end(job_id, seconds=seconds)
        assert job.status == "succeeded", f"{job.reason}\n{self.log(job_id)[-3000:]}"
        return job

    def wait_for_training(self, job_id, *, checkpoints=1, seconds=90.0):
        """Until steps are made and this many checkpoints are committed; the step it is at."""
        self.wait_for(lambda: self.client.job(job_id).phase == "training", seconds=seconds)
        self.wait_for(lambda: len(self.committed_steps(job_id)) >= checkpoints, seconds=seconds)
        return self.client.job(job_id).progress.step

    def pause_kill_and_finish(self, job_id, *, step, seconds):
        """Pause and resume a long job, kill its trainer, and finish the job after a step.

        Each time it must continue from its newest checkpoint.
        """
        self.wait_for_training(job_id, seconds=seconds)
        self.client.pause(job_id)
        self.wait_for(lambda: self.client.job(job_id).status == "paused", seconds=seconds)
        paused_at = self.committed_steps(job_id)[-1]
        self.client.resume(job_id)
        assert self._wait_for_more(job_id, attempt=1, seconds=seconds) == paused_at

        self.trainer_of().kill()
        resumed_from = self._wait_for_more(job_id, attempt=2, seconds=seconds)
        assert resumed_from in self.committed_steps(job_id)

        self.wait_for(lambda: self.committed_steps(job_id)[-1] >= step, seconds=seconds)
        self.client.finish(job_id)
        job = self.wait_for_success(job_id, seconds=seconds)
        statuses = [str(attempt.status) for attempt in job.attempts]
        assert statuses == ["paused", "failed", "paused", "succeeded"]
        stopped_at = self.committed_steps(job_id)[-1]
        assert job.attempts[3].resumed_from_step == job.progress.step == stopped_at
        return job

    def _wait_for_more(self, job_id, *, attempt, seconds):
        """Until a later attempt has committed a new checkpoint; the step it began at."""
        self.wait_for(lambda: len(self.client.job(job_id).attempts) > attempt, seconds=seconds)
        resumed_from = self.client.job(job_id).attempts[attempt].resumed_from_step
        assert resumed_from > 0
        self.wait_for(lambda: self.committed_steps(job_id)[-1] > resumed_from, seconds=seconds)
        return resumed_from

    def losses(self, job_id):
        """The training loss of every step."""
        (series,) = self.client.metrics(job_id, names=["train/loss"], max_points=100_000)
        return dict(zip(series.steps, series.values, strict=True))

    def events(self, job_id, kind):
        return [event for event in self.client.events(job_id) if event.kind == kind]

    def committed_steps(self, job_id):
        return [event.data["step"] for event in self.events(job_id, "committed")]

    def trainer_of(self, worker=None):
        """The process that runs a job: of the worker's children the one that writes its log.

        If that is only the client of a fork (`warm_forks`), the fork.
        """
        forks = [] if self._forks_of is None else _children_of(self._forks_of)
        for child in [*forks, *self.children_of(worker)]:
            if "/jobs/" in str(Path(f"/proc/{child.pid}/fd/1").readlink()):
                return child
        return None

    def children_of(self, worker=None):
        return _children_of((worker or self.stack.workers[0]).pid)

    def restore(self):
        """Everything runs again, and nothing is left in the queue."""
        stack = self.stack
        for part in stack.parts:
            part.signal(signal.SIGCONT)
        # First, because a test that failed may have left both of them dead.
        if not stack.redis.is_running:
            stack.redis.restart()
            stack.wait_for_redis()
        if not stack.service.is_running:
            stack.service.restart()
            stack.wait_for_service()
        self.ask_all_to_stop()
        for extra in stack.workers[1:]:
            extra.kill()
        del stack.workers[1:]
        if not stack.workers[0].is_running:
            stack.workers[0].restart()
        stack.wait_for_worker(stack.workers[0])
        self.wait_for(lambda: all(job.is_terminal for job in self.client.jobs()))

    def ask_all_to_stop(self):
        """Cancel every job that has not ended, even if one ends meanwhile."""
        self.client.cancel_all(status=[status for status in JobStatus if not status.is_terminal])

    def cancel_all(self):
        """No job is left, whatever a test left behind it."""
        self.ask_all_to_stop()
        self.wait_for(lambda: all(job.is_terminal for job in self.client.jobs()))

    def close(self):
        self.client.close()


def _children_of(pid):
    children = psutil.Process(pid).children(recursive=True)
    return [child for child in children if is_alive(child.pid)]


def start_site(tmp_path_factory, *, trainer_cache=None, forks_of=None, **environment):
    """Start a stack.

    Args:
        forks_of: PID of the process of which its trainers and exports are forks.
        trainer_cache: Folder of decoded sets and rehearsal verdicts that its worker shares.
        environment: Further settings of its parts.
    """
    state_dir = tmp_path_factory.mktemp("state")
    if trainer_cache is not None:
        cache = state_dir / "worker" / "cache"
        cache.mkdir(parents=True)
        (cache / "trainer").symlink_to(trainer_cache)
    stack = Stack(state_dir, environment={**SHORT_TIMES, **environment})
    with stack:
        site = Site(stack, forks_of=forks_of)
        try:
            yield site
        finally:
            site.close()


@pytest.fixture(scope="session")
def trainer_cache(tmp_path_factory):
    """Decoded sets and rehearsal verdicts of all real trainers: each set and network only once."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "trainer-cache"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def shared_site(tmp_path_factory):
    yield from start_site(tmp_path_factory, **FAKES)


@pytest.fixture
def site(shared_site):
    """A stack whose worker has fake trainers and exports, whole again before each test."""
    shared_site.restore()
    return shared_site


@pytest.fixture(scope="module")
def shared_brief_site(tmp_path_factory):
    yield from start_site(tmp_path_factory, REDKILN_LEASE_SECONDS="4", **FAKES)


@pytest.fixture
def brief_site(shared_brief_site):
    """The same with leases of 4 s."""
    shared_brief_site.restore()
    return shared_brief_site


@pytest.fixture(scope="session")
def shared_real_site(tmp_path_factory, trainer_cache):
    # Most waiting trainers and exporters would end unused: they cost 12 s of CPU time a job, and
    # new processes 7 s. `test_native`, `test_spares` and the containers keep them.
    # Users may send code, which must not see the worker's secret.
    # Jobs of tinygrad run on Vulkan in software.
    code = {"REDKILN_SCRIPTS": "on", "HF_TOKEN": "a-secret-of-the-worker"}
    code["REDKILN_VULKAN"] = "software"
    path = tmp_path_factory.mktemp("forks") / "socket"
    with warm_forks.serving(path) as server:
        settings = {"REDKILN_SPARE": "0", **code, **warm_forks.list_commands(path)}
        yield from start_site(
            tmp_path_factory, trainer_cache=trainer_cache, forks_of=server.pid, **settings
        )


@pytest.fixture
def real_site(shared_real_site):
    """A stack that trains and exports, whole again before each test."""
    shared_real_site.restore()
    return shared_real_site


@pytest.fixture(scope="session")
def shared_scripts(tmp_path_factory):
    yield from start_site(tmp_path_factory, REDKILN_SCRIPTS="on", **FAKES)


@pytest.fixture
def scripts(shared_scripts):
    """A stack whose users may run programs; each test leaves nothing behind."""
    yield shared_scripts
    shared_scripts.cancel_all()


@pytest.fixture
def start():
    """Starts a command as the agent does, as the leader of a group; no group outlives the test."""
    yield from starting(subprocess.Popen)


def starting(popen):
    children = []

    def run(*command, **options):
        environment = {**os.environ, "REDKILN_PARENT_PID": str(os.getpid())}
        child = popen(command, cwd=ROOT, env=environment, start_new_session=True, **options)
        children.append(child)
        return child

    yield run
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                stream.close()
