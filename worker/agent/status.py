"""Tells the service what the worker's GPUs are and do, every few seconds, in a thread of its own.

It is for people and for the choice of jobs: nothing here may keep the worker from working. A
service that does not know these messages gets no more of them until the next hello.
"""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Protocol

import structlog

from redkiln.hardware import DoctorReport, GpuState
from redkiln.protocol import StatusRequest, StatusResponse
from worker.agent.backoff import Backoff
from worker.agent.client import Refused, ServiceError, Superseded

log = structlog.get_logger(__name__)

FIRST_PAUSE_SECONDS = 5.0
"""Until the service says how often it wants to hear."""
SILENT_PERIODS = 3
LEAST_SILENT_SECONDS = 5.0
"""Readings older than so many pauses are not told, as a sensor may hang in the card's firmware; but
they are made once a second, however often they are told."""


class Statuses(Protocol):
    """Where statuses go."""

    def tell_status(self, request: StatusRequest) -> StatusResponse:
        """Say what the hardware does now."""


class StatusTeller:
    """A thread that tells the newest status while there is something to tell.

    Args:
        client: the service.
        worker_id: of this worker.
        boot_id: of this process.
        read_gpus: every GPU of the host with its newest telemetry; called once a round.
        read_cost: what the newest readings of all sensors took together.
    """

    def __init__(
        self,
        client: Statuses,
        *,
        worker_id: str,
        boot_id: str,
        read_gpus: Callable[[], Sequence[GpuState]],
        read_cost: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._client = client
        self._worker_id = worker_id
        self._boot_id = boot_id
        self._read_gpus = read_gpus
        self._read_cost = read_cost
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self._seq = 0
        self._told: StatusRequest | None = None
        self._doctor: DoctorReport | None = None
        self._is_welcome = False
        self._is_urgent = False
        self._is_over = False
        self._due_at = 0.0
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    def start(self) -> None:
        """Tell from now on, as soon as the service has said welcome."""
        self._thread.start()

    def welcome(self) -> None:
        """The service has taken this worker in, perhaps again: it knows nothing of its status."""
        with self._wake:
            self._is_welcome = True
            self._told = None
            self._urge()

    def hurry(self) -> None:
        """A GPU was taken, given back or excluded: others wait to see it."""
        with self._wake:
            self._urge()

    def tell_doctor(self, report: DoctorReport) -> None:
        """Tell what the doctor found, with the next status."""
        with self._wake:
            self._doctor = report
            self._urge()

    def halt(self) -> None:
        """Tell no more."""
        with self._wake:
            self._is_over = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()

    def tell(self) -> bool:
        """Send a status if there is something new; whether one was sent.

        Raises:
            ServiceError: see `worker.agent.client`.
        """
        request = self._build()
        if self._told is not None and not is_news(request, self._told):
            return False
        answer = self._client.tell_status(request)
        self._pause_seconds = answer.status_seconds
        with self._wake:
            self._told = request
            if self._doctor is request.doctor:
                self._doctor = None
        return True

    def _run(self) -> None:
        backoff = Backoff()
        while self._wait():
            pause = self._pause_seconds
            try:
                self.tell()
            except ServiceError as error:
                self._heed(error)
                pause = max(pause, backoff.next_seconds())
            except Exception:  # whatever a sensor does, the worker works
                log.exception("status broke off")
                pause = max(pause, backoff.next_seconds())
            else:
                backoff.reset()
            self._due_at = time.monotonic() + pause

    def _wait(self) -> bool:
        """Until it is time, or something happened; False when it is over."""
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

    def _heed(self, error: ServiceError) -> None:
        is_unknown = isinstance(error, Refused) and error.status in (
            HTTPStatus.NOT_FOUND,
            HTTPStatus.METHOD_NOT_ALLOWED,
        )
        if is_unknown or isinstance(error, Superseded):
            # An older service, or one that has to be greeted again: the next welcome begins anew.
            with self._wake:
                self._is_welcome = False
        log.warning("status not told", error=str(error))


def is_news(request: StatusRequest, told: StatusRequest) -> bool:
    """Whether a status says more than the one before: without sensors most do not."""
    has_sensors = any(gpu.facts.telemetry is not None for gpu in request.gpus)
    return has_sensors or request.gpus != told.gpus or request.doctor is not None


def drop_old_telemetry(gpu: GpuState, *, oldest: datetime) -> GpuState:
    """A state without its readings if these are too old to be called live."""
    telemetry = gpu.facts.telemetry
    if telemetry is None or telemetry.at is None or telemetry.at >= oldest:
        return gpu
    facts = gpu.facts.model_copy(update={"telemetry": None})
    return gpu.model_copy(update={"facts": facts})
