"""A compose project under test: started by its files, asked over HTTP, looked at from the host."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from itertools import chain
from pathlib import Path

import httpx

from docker.user import REDKILN_GID, REDKILN_UID

ROOT = Path(__file__).parents[2]
PARTS = ("redis", "service", "worker")
ENDLESS = {"batch_size": 16, "checkpoint_seconds": 1, "steps": 1_000_000}
"""Training that lasts until `Stack.finish`, however fast or busy the machine is."""


def run(*command, timeout=300, check=True, **options):
    """Run a command on the host and return what it did, with its output as text."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done


def wait_until(condition, *, seconds, what):
    """Ask until the answer is true, and return it; a service that restarts is asked again."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if found := condition():
                return found
        time.sleep(0.25)
    raise AssertionError(f"not within {seconds} s: {what}")


def find_free_address(host):
    """An address on the host with a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return f"{host}:{probe.getsockname()[1]}"


class Stack:
    """One compose project.

    Args:
        project: its name.
        files: compose files.
        variables: Lines that a user would write into .env.
    """

    def __init__(self, project, files, variables):
        self.project = project
        self.files = list(files)
        self.variables = dict(variables)
        self.key = None

    def compose(self, *arguments, check=True, timeout=300, **options):
        """Run a compose command, with these variables alone."""
        return run(
            *self._command(arguments), check=check, timeout=timeout, cwd=ROOT,
            env=self._environment(), **options,
        )  # fmt: skip

    def stream(self, *arguments, **streams):
        """Run a compose command whose input or output is a file's bytes."""
        done = subprocess.run(
            self._command(arguments), cwd=ROOT, env=self._environment(), stderr=subprocess.PIPE,
            timeout=300, **streams,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()

    def _command(self, arguments):
        files = chain.from_iterable(("-f", file) for file in self.files)
        project = ["docker", "compose", "--env-file", "/dev/null", "-p", self.project]
        return [*project, *files, *arguments]

    def _environment(self):
        own = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/root")}
        return {**own, **self.variables}

    def up(self, *arguments):
        """Start what is not running; images are there already."""
        return self.compose("up", "--detach", "--no-build", "--pull", "never", *arguments)

    def down(self, *, volumes=False):
        """Remove containers and networks, with the volumes only if told so."""
        self.compose("down", *(["--volumes", "--timeout", "1"] if volumes else []))

    # ---- over HTTP ----------------------------------------------------------------------------

    @property
    def url(self):
        """Where the service is published."""
        return f"http://{self.variables['REDKILN_BIND']}"

    def call(self, method, path, **options):
        """One request; the answer whatever its status."""
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        headers.update(options.pop("headers", {}))
        return httpx.request(method, self.url + path, headers=headers, timeout=60, **options)

    def get(self, path):
        """A resource as JSON."""
        answer = self.call("GET", path)
        assert answer.is_success, answer.text
        return answer.json()

    def is_answering(self):
        """Whether the service answers at all."""
        try:
            return httpx.get(self.url + "/healthz", timeout=2).is_success
        except httpx.HTTPError:
            return False

    def submit(self, **spec):
        """Submit a job and return its id."""
        answer = self.call("POST", "/v1/jobs", json=spec)
        assert answer.status_code == 202, answer.text
        return answer.json()["id"]

    def upload(self, name, content):
        """Upload an archive and wait until it is ready."""
        answer = self.call(
            "POST", "/v1/datasets", params={"name": name}, content=content,
            headers={"Content-Type": "application/zip"},
        )  # fmt: skip
        assert answer.status_code in (200, 202), answer.text
        return self.wait_for_dataset(answer.json()["id"])

    def wait_for_dataset(self, dataset_id):
        """Wait until a data set is ready."""

        def look():
            found = self.get(f"/v1/datasets/{dataset_id}")
            assert found["status"] != "invalid", found
            return found if found["status"] == "ready" else None

        return wait_until(look, seconds=60, what=f"{dataset_id} ready")

    def job(self, job_id):
        """A job as the API shows it."""
        return self.get(f"/v1/jobs/{job_id}")

    def events(self, job_id):
        """All events of a job, in their order."""
        found, page = [], {"has_more": True, "last_id": None}
        while page["has_more"]:
            after = f"&after_seq={page['last_id']}" if page["last_id"] else ""
            page = self.get(f"/v1/jobs/{job_id}/events?limit=1000{after}")
            found += page["data"]
        return found

    def wait_for_commit(self, job_id, *, after_step=0):
        """Wait until training has committed a checkpoint beyond a step, and return its step."""

        def look():
            job = self.job(job_id)
            assert not job["is_terminal"], job
            steps = [e["data"]["step"] for e in self.events(job_id) if e["kind"] == "committed"]
            newest = max(steps, default=0)
            return newest if newest > after_step and job["phase"] == "training" else None

        return wait_until(look, seconds=400, what=f"{job_id} commits beyond step {after_step}")

    def finish(self, job_id, *, attempt):
        """Have training stop once this attempt, counted from 1, has committed a checkpoint.

        Another attempt then exports. Returns the job, which must succeed.
        """

        def look():
            job = self.job(job_id)
            assert not job["is_terminal"], job
            ids = [each["id"] for each in job["attempts"]]
            events = self.events(job_id) if len(ids) >= attempt else []
            return any(
                event["kind"] == "committed" and event["attempt_id"] == ids[attempt - 1]
                for event in events
            )

        wait_until(look, seconds=400, what=f"attempt {attempt} of {job_id} commits")
        answer = self.call("POST", f"/v1/jobs/{job_id}/finish")
        assert answer.is_success, answer.text
        return self.wait_for_success(job_id)

    def wait_for_success(self, job_id, *, seconds=300):
        """Wait until a job has succeeded; any other end is an error."""

        def look():
            job = self.job(job_id)
            assert job["status"] not in ("failed", "cancelled"), job
            return job if job["status"] == "succeeded" else None

        return wait_until(look, seconds=seconds, what=f"{job_id} succeeds")

    def artifacts(self, job_id):
        """A job's artifacts by name."""
        return {each["name"]: each for each in self.get(f"/v1/jobs/{job_id}/artifacts")["data"]}

    def wait_for_workers(self, count):
        """Wait until so many workers are alive."""

        def look():
            alive = [each for each in self.get("/v1/workers")["data"] if each["is_live"]]
            return len(alive) >= count

        return wait_until(look, seconds=90, what=f"{count} live workers")

    # ---- from the host ------------------------------------------------------------------------

    def container(self, part):
        """The id of a part's container."""
        return self.compose("ps", "--all", "--quiet", part).stdout.strip()

    def inspect(self, part):
        """What the engine knows of a part's container."""
        return json.loads(run("docker", "inspect", self.container(part)).stdout)[0]

    def health(self, part):
        """`healthy`, or why not."""
        container = self.container(part)
        if not container:
            return "missing"
        state = json.loads(run("docker", "inspect", container).stdout)[0]["State"]
        return (
            state.get("Health", {}).get("Status", state["Status"]) if state["Running"] else "down"
        )

    def wait_healthy(self, *parts, seconds=120):
        """Wait until the engine calls every part healthy."""
        for part in parts or PARTS:
            wait_until(
                lambda part=part: self.health(part) == "healthy",
                seconds=seconds,
                what=f"{part} healthy, it is {self.health(part)}",
            )

    def kill_main_process(self, part):
        """Kill a container's first process from the host, as the kernel's OOM killer does."""
        before = self.inspect(part)["RestartCount"]
        os.kill(self.inspect(part)["State"]["Pid"], signal.SIGKILL)
        wait_until(
            lambda: self.inspect(part)["RestartCount"] > before, seconds=60, what=f"{part} restarts"
        )

    def logs(self, part):
        """All that a part has said."""
        done = self.compose("logs", "--no-color", "--no-log-prefix", part)
        return done.stdout + done.stderr

    def execute(self, part, *command, check=True):
        """Run a command in a part's container, as the user of its main process."""
        user = [f"--user={REDKILN_UID}:{REDKILN_GID}"] if part == "worker" else []
        return self.compose("exec", "-T", *user, part, *command, check=check)

    def volume(self, name):
        """A volume's full name."""
        return f"{self.project}_{name}"
