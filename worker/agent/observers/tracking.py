"""A thread that reports an attempt to an MLflow server; only the attempt's end waits for it.

While the server is unreachable, data waits in memory up to a bound. Whatever never arrives is
reported in one warning at the end of the attempt and does not change its outcome.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from redkiln.events import Event, EventKind
from worker.agent.attempt.finish import Outcome
from worker.agent.backoff import Backoff
from worker.agent.observers.mlflow import (
    JOB_TAG,
    MAX_METRICS,
    Metric,
    MlflowAway,
    MlflowClient,
    MlflowRefused,
    find_folder,
    flatten,
    make_name,
)

log = structlog.get_logger(__name__)

MAX_WAITING = 200_000
"""Points kept while the server is unreachable; beyond this the oldest are dropped."""
BATCH_SECONDS = 2.0
CLOSE_SECONDS = 60.0
"""How long the end of an attempt waits for the server, including file uploads."""
HURRY_SECONDS = 5.0
"""The same if the job is not over: somebody may be waiting for it to be paused."""
STATUS: dict[Outcome, str] = {"succeeded": "FINISHED", "failed": "FAILED", "cancelled": "KILLED"}
"""A job that is paused or released continues in the same run, which stays RUNNING."""


@dataclass(frozen=True)
class RunFacts:
    """A run's name and tags.

    Attributes:
        experiment: Name of the experiment that it belongs to.
    """

    experiment: str
    job_id: str
    job_name: str
    tags: Mapping[str, str]


@dataclass
class _News:
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    metrics: deque[Metric] = field(default_factory=deque)
    num_lost: int = 0

    @property
    def is_empty(self) -> bool:
        return not (self.params or self.tags or self.metrics)


class Tracking:
    """One attempt's run on an MLflow server.

    Args:
        client: Client of the server.
        facts: Name and tags of the run.
        on_fault: Receives an unexpected exception, after which nothing more is reported.
        clock: Returns seconds since 1970.
    """

    def __init__(
        self,
        client: MlflowClient,
        facts: RunFacts,
        *,
        on_fault: Callable[[Exception], object],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._on_fault = on_fault
        self._client = client
        self._facts = facts
        self._clock = clock
        self._news = _News()
        self._known_params: set[str] = set()
        self._run: dict[str, Any] | None = None
        self._outcome: Outcome | None = None
        self._files: Sequence[Path] = ()
        self._refused: str | None = None
        self._away: str | None = None
        self._is_over = False
        self._is_done = False
        self._may_correct = False
        self._last_step = 0
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._tell, name="mlflow", daemon=True)

    def start(self) -> None:
        """Start reporting."""
        self._thread.start()

    def on_event(self, event: Event) -> None:
        """Queue what one event of the attempt contains."""
        data = event.data
        with self._changed:
            if event.kind is EventKind.RESOLVED:
                self._news.params.update(flatten(data.get("spec") or {}))
                environment = data.get("environment") or {}
                self._news.tags.update(
                    {
                        f"redkiln.{name}": str(environment[name])
                        for name in ("device", "gpu", "torch")
                        if environment.get(name) is not None
                    }
                )
            elif event.kind is EventKind.METRICS:
                at_ms = int(event.at.timestamp() * 1000)
                for name, points in data.get("points", {}).items():
                    self._take(name, points, at_ms)
            elif event.kind is EventKind.RESULT:
                at_ms = int(event.at.timestamp() * 1000)
                for name, value in data.get("metrics", {}).items():
                    if name.startswith("test/"):
                        self._take(name, [(self._last_step, value)], at_ms)
                if data.get("verified") is not None:
                    self._news.tags["redkiln.verified"] = str(data["verified"]).lower()

    def finish(self, outcome: Outcome, files: Sequence[Path]) -> str | None:
        """Report how the attempt ended and upload its files.

        Returns:
            A warning about what did not arrive, for the job; None if everything did.
        """
        if self._thread.ident is None:
            return None  # the attempt ended before there was anything to report
        timeout_seconds = CLOSE_SECONDS if outcome in STATUS else HURRY_SECONDS
        with self._changed:
            self._outcome, self._files = outcome, files
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_done, timeout_seconds)
            is_done = self._is_done
            self._is_over = True
            self._changed.notify_all()
        if self._refused:
            return f"MLflow refused some of the run's data: {self._refused}"
        if not is_done:
            return f"MLflow did not take everything in time: {self._away or 'it was too slow'}"
        if self._news.num_lost:
            lost = self._news.num_lost
            return f"MLflow was unreachable for too long; {lost:,} points of its curves are missing"
        return None

    def correct(self, outcome: Outcome) -> None:
        """Correct the status if it differs from what `finish` reported; there is no second try."""
        status = STATUS.get(outcome, "RUNNING")
        reported = None if self._outcome is None else STATUS.get(self._outcome, "RUNNING")
        if self._run is None or not self._may_correct or status == reported:
            return
        at_ms = int(1000 * self._clock()) if outcome in STATUS else None
        try:
            self._client.update_run(self._run["info"]["run_id"], status=status, at_ms=at_ms)
        except (MlflowAway, MlflowRefused) as error:
            log.warning("MLflow shows a wrong status of the run", status=reported, error=str(error))

    def halt(self) -> None:
        """Stop reporting, without waiting for a request in flight."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
            if self._may_correct:
                self._may_correct = False
                self._client.close()

    def _take(self, name: str, points: Sequence[tuple[int, float | None]], at_ms: int) -> None:
        key = make_name(name)
        for step, value in points:
            if value is not None:
                self._news.metrics.append(Metric(key, float(value), int(step), at_ms))
                self._last_step = max(self._last_step, int(step))
        while len(self._news.metrics) > MAX_WAITING:
            self._news.metrics.popleft()
            self._news.num_lost += 1

    def _tell(self) -> None:
        backoff = Backoff(cap_seconds=30.0)
        try:
            while not self._is_over:
                try:
                    self._tell_once()
                except (MlflowAway, OSError) as error:
                    self._away = str(error)
                    log.info("MLflow is unreachable; retrying", error=str(error))
                    self._rest(backoff.next_seconds())
                    continue
                backoff.reset()
                if self._is_done:
                    return
                self._rest(BATCH_SECONDS, until_end=True)
        except MlflowRefused as error:
            log.warning("MLflow refused", error=str(error))
            self._refused = str(error)
        except Exception as error:  # noqa: BLE001  # tracking must not cost a training run
            self._on_fault(error)
        finally:
            with self._changed:
                self._is_done = True
                self._may_correct = not self._is_over
                self._changed.notify_all()
                if self._is_over:
                    self._client.close()

    def _tell_once(self) -> None:
        run = self._run = self._run or self._open()
        run_id = run["info"]["run_id"]
        while not self._is_over and self._send_some(run_id):
            pass
        if self._outcome is None or self._is_over:
            return
        with self._noting_refusal():
            self._hand_in(run)
        if status := STATUS.get(self._outcome):
            self._client.update_run(run_id, status=status, at_ms=int(1000 * self._clock()))
        self._is_done = True

    def _open(self) -> dict[str, Any]:
        facts = self._facts
        experiment_id = self._client.find_or_create_experiment(facts.experiment)
        run = self._client.find_run(experiment_id, job_id=facts.job_id)
        if run is None:
            return self._client.create_run(
                experiment_id,
                name=facts.job_name,
                tags={JOB_TAG: facts.job_id, **facts.tags},
                at_ms=int(1000 * self._clock()),
            )
        # Parameters can be written only once; those of the previous attempt are kept.
        known = run.get("data", {}).get("params", [])
        self._known_params = {param["key"] for param in known}
        self._client.update_run(run["info"]["run_id"], status="RUNNING")
        return run

    def _send_some(self, run_id: str) -> bool:
        """Send one batch of what waits; return whether there was anything."""
        with self._changed:
            news = self._news
            if news.is_empty:
                return False
            metrics = [news.metrics[i] for i in range(min(MAX_METRICS, len(news.metrics)))]
            waiting = dict(news.params)
            params = {k: v for k, v in waiting.items() if k not in self._known_params}
            tags = dict(news.tags)
        self._log_params(run_id, params)
        self._log_metrics(run_id, metrics)
        with self._noting_refusal():
            self._client.log(run_id, tags=tags)
        with self._changed:
            self._known_params.update(params)
            # Keep what was added meanwhile.
            _drop(self._news.params, waiting)
            _drop(self._news.tags, tags)
            for metric in metrics:
                if self._news.metrics and self._news.metrics[0] is metric:
                    self._news.metrics.popleft()
        return True

    def _log_params(self, run_id: str, params: Mapping[str, str]) -> None:
        """Send parameters; if some are refused, the others still arrive."""
        with self._noting_refusal():
            try:
                self._client.log(run_id, params=params)
            except MlflowRefused:
                if len(params) == 1:
                    raise
                for key, value in params.items():
                    self._log_params(run_id, {key: value})

    def _log_metrics(self, run_id: str, metrics: Sequence[Metric]) -> None:
        """Send points; if some series are refused, the others still arrive."""
        with self._noting_refusal():
            try:
                self._client.log(run_id, metrics=metrics)
            except MlflowRefused:
                keys = dict.fromkeys(metric.key for metric in metrics)
                if len(keys) == 1:
                    raise
                for key in keys:
                    self._log_metrics(run_id, [metric for metric in metrics if metric.key == key])

    @contextmanager
    def _noting_refusal(self) -> Iterator[None]:
        """Record a refusal for the final warning, and continue with the rest."""
        try:
            yield
        except MlflowRefused as error:
            if self._refused is None:
                log.warning("MLflow refused", error=str(error))
                self._refused = str(error)

    def _hand_in(self, run: Mapping[str, Any]) -> None:
        folder = find_folder(run)
        files = [path for path in self._files if path.is_file()]
        if not files:
            return
        if folder is None:
            raise MlflowRefused(
                "this server does not accept file uploads, because it stores files elsewhere; "
                "start it with --serve-artifacts"
            )
        for path in files:
            if self._is_over:
                return
            with self._noting_refusal():
                self._client.put_file(folder, path)

    def _rest(self, seconds: float, *, until_end: bool = False) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_over or (until_end and self._outcome is not None), seconds
            )


def _drop(waiting: dict[str, str], sent: Mapping[str, str]) -> None:
    for key, value in sent.items():
        if waiting.get(key) == value:
            del waiting[key]
