"""A job's run on an MLflow server, written from the events of one attempt."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import mlflow
import requests
from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from redkiln.events import Event, EventKind
from worker.agent.attempt.spool import EventSpool
from worker.agent.tracking.messages import Ending, RunFacts
from worker.agent.tracking.names import flatten, make_name

JOB_TAG = "redkiln.job_id"
ENVIRONMENT_TAGS = ("device", "gpu", "torch")
PASSING = {408, 425, 429}
"""Statuses below 500 of a server that cannot answer now."""
MAX_TEXT = 300
Item = Metric | Param | RunTag


class MlflowAway(Exception):  # noqa: N818  # the name states the fault
    """The server is unreachable or cannot answer now."""


class MlflowRefused(Exception):  # noqa: N818
    """The server, or MLflow's client for it, refused a request."""


class TrackedRun:
    """The run of a job, which all its attempts continue.

    `follow` and `end` raise `MlflowAway` if the server is unreachable. Called again, they continue
    where they stopped. Whatever the server refuses is left out, and the rest is sent.

    Args:
        client: Client of the server. It does not retry by itself.
        facts: Name and tags of the run.

    Attributes:
        refusal: The first refusal; None if nothing was refused.
    """

    def __init__(self, client: MlflowClient, facts: RunFacts) -> None:
        self._client = client
        self._facts = facts
        self._spool = EventSpool(facts.events_path)
        self._run: Run | None = None
        self._known_params: set[str] = set()
        self._uploaded: set[Path] = set()
        self._last_step = 0
        self.refusal: str | None = None

    def follow(self) -> None:
        """Send all events that the attempt has written since the last call."""
        with self._noting_refusal():
            self._open()
        while self._run is not None and (lines := self._spool.peek()):
            self._log([item for line in lines for item in self._collect(line.event)])
            self._spool.advance(to_seq=self._spool.next_seq + len(lines) - 1)

    def end(self, ending: Ending) -> None:
        """Upload the files and set the run's status."""
        if self._run is None:
            return
        with self._noting_refusal():
            self._upload(self._run, ending.files)
        with self._noting_refusal(), _naming_problems():
            run_id = self._run.info.run_id
            if ending.status == "RUNNING":
                self._client.update_run(run_id, status=ending.status)
            else:
                self._client.set_terminated(run_id, status=ending.status)

    def _open(self) -> None:
        if self._run is not None or self.refusal is not None:
            return
        facts = self._facts
        with _naming_problems():
            experiment_id = mlflow.set_experiment(facts.experiment).experiment_id
            of_job = f"tags.`{JOB_TAG}` = '{facts.job_id}'"
            if runs := self._client.search_runs([experiment_id], of_job, max_results=1):
                # Parameters can be written only once; those of the previous attempt are kept.
                self._known_params = set(runs[0].data.params)
                self._client.update_run(runs[0].info.run_id, status="RUNNING")
                self._run = runs[0]
            else:
                tags = {JOB_TAG: facts.job_id, **facts.tags}
                self._run = self._client.create_run(
                    experiment_id, run_name=facts.job_name, tags=tags
                )

    def _collect(self, event: Event) -> Iterator[Item]:
        """Yield what one event adds to the run."""
        data, at_ms = event.data, int(event.at.timestamp() * 1000)
        if event.kind is EventKind.RESOLVED:
            for key, value in flatten(data.get("spec") or {}):
                if key not in self._known_params:
                    self._known_params.add(key)
                    yield Param(key, value)
            environment = data.get("environment") or {}
            for name in ENVIRONMENT_TAGS:
                if environment.get(name) is not None:
                    yield RunTag(f"redkiln.{name}", str(environment[name]))
        elif event.kind is EventKind.METRICS:
            for name, points in data.get("points", {}).items():
                for step, value in points:
                    self._last_step = max(self._last_step, int(step))
                    # JSON cannot represent the others.
                    if value is not None and math.isfinite(value):
                        yield Metric(make_name(name), float(value), at_ms, int(step))
        elif event.kind is EventKind.RESULT:
            for name, value in data.get("metrics", {}).items():
                if name.startswith("test/") and value is not None and math.isfinite(value):
                    yield Metric(make_name(name), float(value), at_ms, self._last_step)
            if data.get("verified") is not None:
                yield RunTag("redkiln.verified", str(data["verified"]).lower())

    def _log(self, items: list[Item]) -> None:
        """Send items together; if the server refuses, send those of each name separately."""
        try:
            self._send(items)
        except MlflowRefused:
            groups: dict[tuple[type[Item], str], list[Item]] = {}
            for item in items:
                groups.setdefault((type(item), item.key), []).append(item)
            for group in groups.values():
                with self._noting_refusal():
                    self._send(group)

    def _send(self, items: Iterable[Item]) -> None:
        assert self._run is not None
        kinds: dict[type[Item], list[Any]] = {Metric: [], Param: [], RunTag: []}
        for item in items:
            kinds[type(item)].append(item)
        with _naming_problems():
            self._client.log_batch(
                self._run.info.run_id,
                metrics=kinds[Metric],
                params=kinds[Param],
                tags=kinds[RunTag],
            )

    def _upload(self, run: Run, files: Iterable[Path]) -> None:
        remaining = [path for path in files if path.is_file() and path not in self._uploaded]
        # With another scheme, this process would write to a store itself, for instance to a folder
        # of this machine.
        if remaining and urlsplit(run.info.artifact_uri).scheme != "mlflow-artifacts":
            raise MlflowRefused(
                "this server does not accept file uploads, because it stores files elsewhere; "
                "start it with --serve-artifacts"
            )
        for path in remaining:
            with self._noting_refusal(), _naming_problems():
                self._client.log_artifact(run.info.run_id, str(path))
            self._uploaded.add(path)

    @contextmanager
    def _noting_refusal(self) -> Iterator[None]:
        """Record a refusal, and continue with the rest."""
        try:
            yield
        except MlflowRefused as error:
            self.refusal = self.refusal or str(error)


@contextmanager
def _naming_problems() -> Iterator[None]:
    """Turn the errors of MLflow's client into `MlflowAway` and `MlflowRefused`."""
    try:
        yield
    except MlflowException as error:
        status = error.get_http_status_code()  # type: ignore[no-untyped-call]
        raise _classify(status, error) from error
    except requests.HTTPError as error:
        raise _classify(
            500 if error.response is None else error.response.status_code, error
        ) from error
    except (requests.RequestException, OSError) as error:
        raise _classify(500, error) from error


def _classify(status: int, error: BaseException) -> MlflowAway | MlflowRefused:
    while error.__context__ is not None:  # the first one is the shortest: `Connection refused`
        error = error.__context__
    text = " ".join(str(error).split())[:MAX_TEXT]
    return MlflowAway(text) if status >= 500 or status in PASSING else MlflowRefused(text)
