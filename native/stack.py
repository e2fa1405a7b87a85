"""Runs service, Redis and workers on this machine, as a context manager that cleans up."""

import contextlib
import errno
import fcntl
import http.client
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import IO, Self
from urllib.parse import urlsplit

from native import redis
from native.processes import Part, wait_until

READY_SECONDS = 180.0
"""Most of it is for the first import of torch from a slow disk."""
DEFAULT_BIND = "127.0.0.1:8321"
WORKER_STOP_SECONDS = 90.0
"""Longer than the worker's own grace period, in which it returns its jobs."""


class StateInUse(Exception):  # noqa: N818  named by what happened
    """Another stack is using the state folder."""


class AddressInUse(Exception):  # noqa: N818  named by what happened
    """Another program listens at the chosen address."""


class Stack:
    """The parts of Redkiln, each a child process that can be stopped, killed and restarted.

    Args:
        state_dir: Folder for everything that survives a restart.
        environment: `REDKILN_*` settings of all parts; they override those of this process.
        num_workers: Number of workers, each with its own folder.
        inherit_settings: Whether the parts inherit `REDKILN_*` variables of this process.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        environment: Mapping[str, str] | None = None,
        num_workers: int = 1,
        inherit_settings: bool = False,
    ) -> None:
        self.state_dir = state_dir.resolve()
        own = {
            name: value
            for name, value in os.environ.items()
            if inherit_settings or not name.startswith("REDKILN_")
        }
        self._environment = {**own, **(environment or {})}
        self._num_workers = num_workers
        self._lock: IO[str] | None = None
        self._socket_path: Path | None = None
        self.redis_password = ""
        self.redis: Part | None = None
        self.service: Part | None = None
        self.workers: list[Part] = []
        self.url = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def parts(self) -> list[Part]:
        """All started parts, in the order of their start."""
        return [part for part in (self.redis, self.service, *self.workers) if part is not None]

    @property
    def logs_dir(self) -> Path:
        """Folder with one log file a part."""
        return self.state_dir / "logs"

    @property
    def redis_socket_path(self) -> Path:
        """Path of the socket of this stack's own Redis."""
        assert self._socket_path is not None, "the stack uses an external broker"
        return self._socket_path

    @property
    def needs_key(self) -> bool:
        """Whether users must authenticate with a key."""
        return get_status(f"{self.url}/v1/tasks") == HTTPStatus.UNAUTHORIZED

    @property
    def admin_key(self) -> str:
        """The key that the service created at its first start."""
        return (self.state_dir / "keys" / "admin.key").read_text().strip()

    def start(self) -> None:
        """Start all parts and wait until they are ready.

        Raises:
            PartFailed: A part did not start; nothing is left running.
            StateInUse: Another stack is using the folder.
            AddressInUse: Another program listens at the chosen address.
            NoRedis: No Redis program was found.
        """
        try:
            self._take_state_dir()
            self._start_redis()
            self._start_service()
            for _ in range(self._num_workers):
                self.add_worker()
            for worker in self.workers:
                self.wait_for_worker(worker)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop all parts, workers first, so that they can still return their jobs."""
        try:
            for worker in self.workers:
                worker.signal(signal.SIGTERM)
            for part in reversed(self.parts):
                part.stop()
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill all running parts at once, and release the state folder."""
        for part in reversed(self.parts):
            part.kill()
        if self._socket_path is not None and self._socket_path.parent != self.state_dir / "redis":
            shutil.rmtree(self._socket_path.parent, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def add_worker(self, **environment: str) -> Part:
        """Start one more worker; see `wait_for_worker`.

        Args:
            environment: Settings of this worker only.
        """
        number = len(self.workers) + 1
        name = "worker" if number == 1 else f"worker-{number}"
        settings = {
            "REDKILN_SERVICE_URL": self.url,
            "REDKILN_WORKER_KEY_FILE": str(self.state_dir / "keys" / "worker.key"),
            "REDKILN_WORKER_DIR": str(self.worker_dir(number)),
        }
        worker = self._part(
            name,
            [sys.executable, "-m", "worker"],
            {**settings, **environment},
            stop_seconds=WORKER_STOP_SECONDS,
        )
        worker.start()
        self.workers.append(worker)
        return worker

    def worker_dir(self, number: int = 1) -> Path:
        """Return the folder of a worker, counted from 1."""
        return self.state_dir / ("worker" if number == 1 else f"worker-{number}")

    def wait_for_service(self) -> None:
        """Wait until the service answers.

        Raises:
            PartFailed: It ended, or took too long.
        """
        assert self.service is not None, "the service was not started"
        wait_until(lambda: is_healthy(self.url), self.service, timeout_seconds=READY_SECONDS)

    def wait_for_redis(self) -> None:
        """Wait until Redis answers.

        Raises:
            PartFailed: It ended, or took too long.
        """
        assert self.redis is not None, "Redis was not started"
        path = self.redis_socket_path
        wait_until(
            lambda: redis.answers(path, password=self.redis_password),
            self.redis,
            timeout_seconds=READY_SECONDS,
        )

    def wait_for_worker(self, worker: Part) -> None:
        """Wait until the service has accepted a worker.

        Raises:
            PartFailed: It ended, or took too long.
        """
        ready_path = self.worker_dir(self.workers.index(worker) + 1) / "ready"

        def is_welcome() -> bool:
            return ready_path.exists() and ready_path.read_text().strip() == str(worker.pid)

        wait_until(is_welcome, worker, timeout_seconds=READY_SECONDS)

    def _take_state_dir(self) -> None:
        self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = (self.state_dir / "stack.lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateInUse(
                f"Another stack is using {self.state_dir}. Stop it, or choose another "
                "folder: --state FOLDER, or REDKILN_STATE_DIR."
            ) from None

    def _start_redis(self) -> None:
        if self._environment.get("REDKILN_BROKER_URL"):
            return
        data_dir = self.state_dir / "redis"
        data_dir.mkdir(mode=0o700, exist_ok=True)
        self._socket_path = redis.choose_socket_path(data_dir)
        config_path, self.redis_password = redis.write_config(data_dir)
        command = redis.build_command(
            redis.find_server(),
            config_path=config_path,
            data_dir=data_dir,
            socket_path=self._socket_path,
        )
        self.redis = self._part("redis", command, {})
        self.redis.start()
        self.wait_for_redis()
        self._environment["REDKILN_BROKER_URL"] = (
            f"redis+socket://:{self.redis_password}@{self._socket_path}"
        )

    def _start_service(self) -> None:
        named = self._environment.get("REDKILN_BIND")
        with contextlib.nullcontext(named) if named else choose_bind() as bind:
            host, _, port = bind.rpartition(":")
            if named and int(port) and not is_free(host, int(port)):
                raise AddressInUse(
                    f"Another program uses {named}. Stop it, or choose another port: --port PORT, "
                    "or REDKILN_BIND."
                )
            port = port if int(port) else str(find_free_port(host.strip("[]")))
            self.url = f"http://{reachable_host(host)}:{port}"
            settings = {"REDKILN_BIND": f"{host}:{port}", "REDKILN_STATE_DIR": str(self.state_dir)}
            self.service = self._part("service", [sys.executable, "-m", "service"], settings)
            self.service.start()
            self.wait_for_service()

    def _part(
        self,
        name: str,
        command: list[str],
        environment: Mapping[str, str],
        *,
        stop_seconds: float = 10.0,
    ) -> Part:
        return Part(
            name,
            command,
            environment={**self._environment, **environment},
            log_path=self.logs_dir / f"{name}.log",
            stop_seconds=stop_seconds,
        )


def is_healthy(url: str) -> bool:
    """Return whether the service answers."""
    return get_status(f"{url}/healthz") == HTTPStatus.OK


def get_status(url: str) -> int | None:
    """Return the status of the answer to a GET, or None without an answer."""
    parts = urlsplit(url)
    # Not httpx, which loads certificates for each client; this runs many times a second.
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=2.0)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


@contextlib.contextmanager
def choose_bind() -> Iterator[str]:
    """Yield the default address, with another port if that one is taken.

    A service binds its address a second after it was chosen. No other stack of this user gets the
    default address inside the block, so start the service there.
    """
    host, _, port = DEFAULT_BIND.rpartition(":")
    path = Path(tempfile.gettempdir()) / f"redkiln-{os.getuid()}-{port}.lock"
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = is_free(host, int(port))
        except BlockingIOError:
            is_ours = False
        yield DEFAULT_BIND if is_ours else f"{host}:{find_free_port(host)}"


def is_free(host: str, port: int) -> bool:
    """Return whether no process listens at the address."""
    with socket.socket(_family(host)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True


def find_free_port(host: str) -> int:
    """Return a port that no process listens on."""
    with socket.socket(_family(host)) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def reachable_host(host: str) -> str:
    """Return the address at which this machine reaches a service bound to `host`."""
    return {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "": "127.0.0.1"}.get(host, host)  # noqa: S104
