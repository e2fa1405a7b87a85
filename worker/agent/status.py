"""A thread that reports the state of the worker's GPUs to the service every few seconds.

The service shows it to people and uses it to choose jobs; a failure here must never disturb the
worker. A service that does not know these messages gets no more of them until the next hello.
"""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Protocol

import structlog

from redkiln.protocol import StatusRequest, StatusResponse
from redkiln.views.doctor import DoctorReport
from redkiln.views.hardware import GpuState
from worker.agent.backoff import Backoff
from worker.agent.client import Refused, ServiceError, Superseded

log = structlog.get_logger(__name__)

FIRST_PAUSE_SECONDS = 5.0
"""Used until the service says how often it wants a status."""
SILENT_PERIODS = 3
LEAST_SILENT_SECONDS = 5.0
"""Readings older than three periods, or this long if that is longer, are not reported: a sensor
may hang in the card's firmware. Sensors are read once a second, however often they are reported."""


class Statuses(Protocol):
    """Receives statuses."""

    def report_status(self, request: StatusRequest) -> StatusResponse:
        """Report the current state of the hardware."""


class StatusReporter:
    """A thread that sends the latest status whenever there is something new.

    Args:
        client: Client of the service.
        worker_id: Id of this worker.
        boot_id: Id of this process.
        read_gpus: Returns every GPU of the host with its latest telemetry; called once a round.
        read_cost: Returns the seconds that the latest reading of all sensors took.
        keep_free: Told which GPUs get no job; returns whether that is news.
    """

    def __init__(
        self,
        client: Statuses,
        *,
        worker_id: str,
        boot_id: str,
        read_gpus: Callable[[], Sequence[GpuState]],
        read_cost: Callable[[], float | None] = lambda: None,
        keep_free: Callable[[Sequence[str]], bool] = lambda keys: False,  # noqa: ARG005
    ) -> None:
        self._client = client
        self._worker_id = worker_id
        self._boot_id = boot_id
        self._read_gpus = read_gpus
        self._read_cost = read_cost
        self._keep_free = keep_free
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self._seq = 0
        self._sent: StatusRequest | None = None
        self._doctor: DoctorReport | None = None
        self._is_welcome = False
        self._is_urgent = False
        self._is_over = False
        self._due_at = 0.0
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    def start(self) -> None:
        """Start sending, as soon as the service has welcomed this worker."""
        self._thread.start()

    def welcome(self) -> None:
        """Send the status soon, because the service has just registered this worker."""
        with self._wake:
            self._is_welcome = True
            self._sent = None
            self._urge()

    def hurry(self) -> None:
        """Send soon, because a GPU was leased, released or excluded."""
        with self._wake:
            self._urge()

    def report_doctor(self, report: DoctorReport) -> None:
        """Send the doctor's report with the next status."""
        with self._wake:
            self._doctor = report
            self._urge()

    def halt(self) -> None:
        """Stop sending."""
        with self._wake:
            self._is_over = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()

    def send(self) -> bool:
        """Send a status if there is something new; return whether one was sent.

        Raises:
            ServiceError: See `worker.agent.client`.
        """
        request = self._build()
        if self._sent is not None and not is_news(request, self._sent):
            return False
        answer = self._client.report_status(request)
        self._pause_seconds = answer.status_seconds
        has_changed = self._keep_free(answer.kept_free)
        with self._wake:
            self._sent = request
            if has_changed:
                self._urge()  # the service waits to hear that these GPUs get no job
            if self._doctor is request.doctor:
                self._doctor = None
        return True

    def _run(self) -> None:
        backoff = Backoff()
        while self._wait():
            pause = self._pause_seconds
            try:
                self.send()
            except ServiceError as error:
                self._on_event(error)
                pause = max(pause, backoff.next_seconds())
            except Exception:  # a faulty sensor must not disturb the worker
                log.exception("sending the status failed")
                pause = max(pause, backoff.next_seconds())
            else:
                backoff.reset()
            self._due_at = time.monotonic() + pause

    def _wait(self) -> bool:
        """Wait until a status is due or urgent; return False once halted."""
        with self._wake:
            while not self._is_over:
                left = 0.0 if self._is_urgent else self._due_at - time.monotonic()
                if self._is_welcome and left <= 0:
                    self._is_urgent = False
                    return True
                self._wake.wait(left if self._is_welcome else None)
            return False

    def _urge(self) -> None:
        self._is_urgent = True
        self._wake.notify()

    def _build(self) -> StatusRequest:
        self._seq += 1
        silent_seconds = max(SILENT_PERIODS * self._pause_seconds, LEAST_SILENT_SECONDS)
        oldest = datetime.now(UTC) - timedelta(seconds=silent_seconds)
        return StatusRequest(
            worker_id=self._worker_id,
            boot_id=self._boot_id,
            seq=self._seq,
            gpus=[drop_old_telemetry(gpu, oldest=oldest) for gpu in self._read_gpus()],
            doctor=self._doctor,
            sampling_seconds=self._read_cost(),
        )

    def _on_event(self, error: ServiceError) -> None:
        is_unknown = isinstance(error, Refused) and error.status in (
            HTTPStatus.NOT_FOUND,
            HTTPStatus.METHOD_NOT_ALLOWED,
        )
        if is_unknown or isinstance(error, Superseded):
            # An older service, or one that needs a new hello: resume after the next welcome.
            with self._wake:
                self._is_welcome = False
        log.warning("status not accepted", error=str(error))


def is_news(request: StatusRequest, sent: StatusRequest) -> bool:
    """Return whether a status differs from the last one: without sensors most do not."""
    has_sensors = any(gpu.facts.telemetry is not None for gpu in request.gpus)
    return has_sensors or request.gpus != sent.gpus or request.doctor is not None


def drop_old_telemetry(gpu: GpuState, *, oldest: datetime) -> GpuState:
    """Remove a GPU's readings if they are too old to be shown as live."""
    telemetry = gpu.facts.telemetry
    if telemetry is None or telemetry.at is None or telemetry.at >= oldest:
        return gpu
    facts = gpu.facts.model_copy(update={"telemetry": None})
    return gpu.model_copy(update={"facts": facts})
