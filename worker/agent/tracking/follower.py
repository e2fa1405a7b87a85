"""The agent's side of the process that reports an attempt to an MLflow server."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

import structlog

from worker.agent.attempt.finish import Outcome
from worker.agent.attempt.spool import read_tail
from worker.agent.children.environment import build_child_environment
from worker.agent.tracking.messages import Ending, RunFacts, RunStatus
from worker.hardware.masks import HIDE_GPUS
from worker.settings import WorkerSettings

log = structlog.get_logger(__name__)

SOURCE_DIR = Path(__file__).resolve().parents[3]
"""The folder that contains the package `worker`, and in which the process runs."""
CLOSE_SECONDS = 60.0
"""How long the end of an attempt waits for the server, including file uploads."""
HURRY_SECONDS = 5.0
"""The same if the job is not over: somebody may be waiting for it to be paused."""
GRACE_SECONDS = 2.0
"""How much later than it promised the process may answer."""
REQUEST_SECONDS = 20
STATUS: Mapping[Outcome, RunStatus] = {
    "succeeded": "FINISHED",
    "failed": "FAILED",
    "cancelled": "KILLED",
}
"""A job that is paused or released continues in the same run, which stays RUNNING."""
MISSING = (
    "Jobs are not reported to MLflow, because this worker has no MLflow client. In a checkout, "
    "install it with: .venv/bin/pip install -c constraints.txt mlflow-skinny. For containers, set "
    "REDKILN_WORKER_EXTRAS=mlflow in .env and run: docker compose build worker. Then restart the "
    "worker."
)


class FollowerDied(Exception):  # noqa: N818  # the name states the fault
    """The process ended before its work was done."""


def is_installed() -> bool:
    """Return whether this worker has MLflow's client; does not import it."""
    return importlib.util.find_spec("mlflow") is not None


def explain_missing(settings: WorkerSettings) -> str | None:
    """Return what to install if a server is set and MLflow's client is missing, otherwise None."""
    if settings.mlflow_tracking_uri is None or is_installed():
        return None
    return MISSING


def build_environment(
    settings: WorkerSettings, own: Mapping[str, str], *, home: Path
) -> dict[str, str]:
    """Build the environment of the process: a child's, the server's address and the credentials.

    User and password are taken out of the address, so that no message about it contains them.

    Args:
        settings: Settings with an MLflow server.
        own: The agent's environment.
        home: Home folder, without files of credentials for MLflow, requests or Databricks.
    """
    uri = urlsplit(settings.mlflow_tracking_uri or "")
    address = uri._replace(netloc=uri.netloc.rpartition("@")[2]).geturl()
    credentials = {
        "MLFLOW_TRACKING_TOKEN": settings.mlflow_token,
        "MLFLOW_TRACKING_USERNAME": unquote(uri.username or ""),
        "MLFLOW_TRACKING_PASSWORD": unquote(uri.password or ""),
    }
    if settings.mlflow_token:  # it is used instead of a user and a password
        del credentials["MLFLOW_TRACKING_USERNAME"], credentials["MLFLOW_TRACKING_PASSWORD"]
    return {
        **build_child_environment(own, device=HIDE_GPUS, threads=1),
        **{name: value for name, value in credentials.items() if value},
        "HOME": str(home),
        "MLFLOW_TRACKING_URI": address,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": str(REQUEST_SECONDS),
    }


class Follower:
    """The process that reports one attempt; it ends when the agent ends.

    Args:
        facts: Name and tags of the run, and the events to follow.
        environment: Environment of the process (`build_environment`).
        log_path: File that receives the output of the process.
    """

    def __init__(self, facts: RunFacts, *, environment: Mapping[str, str], log_path: Path) -> None:
        self._facts = facts
        self._environment = environment
        self._log_path = log_path
        self._process: subprocess.Popen[bytes] | None = None
        self._reported: RunStatus | None = None

    def start(self) -> None:
        """Start reporting.

        Raises:
            OSError: The process could not be started.
        """
        self._process = self._spawn(self._facts)

    def finish(self, outcome: Outcome, files: Sequence[Path]) -> str | None:
        """Report how the attempt ended, and upload its files.

        Returns:
            A warning about what did not arrive, for the job; None if everything did.

        Raises:
            FollowerDied: The process ended before its work was done.
        """
        if self._process is None:
            return None  # the attempt ended before there was anything to report
        self._reported = STATUS.get(outcome, "RUNNING")
        ending = Ending(
            status=self._reported,
            files=list(files),
            timeout_seconds=CLOSE_SECONDS if outcome in STATUS else HURRY_SECONDS,
        )
        try:
            answer, _ = self._process.communicate(
                ending.model_dump_json().encode(), ending.timeout_seconds + GRACE_SECONDS
            )
        except subprocess.TimeoutExpired:
            return "MLflow did not accept everything in time: the server is too slow"
        if self._process.returncode != 0:
            output = read_tail(self._log_path).strip()
            log.error("the process that reports to MLflow died", output=output)
            raise FollowerDied(output.rpartition("\n")[2] or f"status {self._process.returncode}")
        return answer.decode() or None

    def correct(self, outcome: Outcome) -> None:
        """Correct the status if it differs from what `finish` reported, with one try only.

        Raises:
            FollowerDied: The process ended before its work was done.
        """
        if self._reported in {None, STATUS.get(outcome, "RUNNING")}:
            return
        self.halt()
        self._process = self._spawn(self._facts.model_copy(update={"events_path": os.devnull}))
        if problem := self.finish(outcome, []):
            log.warning("MLflow shows a wrong status of the run", problem=problem)

    def halt(self) -> None:
        """End the process, without waiting for a request in flight."""
        if self._process is not None:
            self._process.kill()
            with self._process:  # closes its streams and waits for it
                self._process = None

    def _spawn(self, facts: RunFacts) -> "subprocess.Popen[bytes]":
        with self._log_path.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "worker.agent.tracking"],
                cwd=SOURCE_DIR,
                env=dict(self._environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                bufsize=0,
                start_new_session=True,  # Ctrl-C in the worker's terminal is not for it
            )
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # `finish` reports that it died
            process.stdin.write(facts.model_dump_json().encode() + b"\n")
        return process
