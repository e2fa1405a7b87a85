"""The doorbell: Celery messages that wake workers. The only file that knows Celery.

A message only says that there is work, so losing or repeating one does no harm. A separate thread
sends the messages, so that a broker that is away or hangs never delays a request.
"""

import threading
from typing import Literal

import structlog
from celery import Celery

log = structlog.get_logger()

TASK_NAME = "redkiln.doorbell"
QUEUE_NAME = "redkiln"
BrokerState = Literal["off", "unknown", "up", "away"]

_SOCKET_SECONDS = 2.0
_PING_SECONDS = 5.0
_PAUSE_SECONDS = 1.0
_MAX_WAITING = 10_000
"""Maximum messages kept while the broker is slow; housekeeping re-publishes the others."""


class Doorbell:
    """Rings workers in the background.

    Args:
        broker_url: URL of Redis; None if workers only poll.
    """

    def __init__(self, broker_url: str | None) -> None:
        self._waiting: dict[str, None] = {}
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._app = None if broker_url is None else _build_app(broker_url)
        self.state: BrokerState = "off" if broker_url is None else "unknown"

    def start(self) -> None:
        """Start sending."""
        if self._app is not None:
            self._thread = threading.Thread(target=self._run, name="doorbell", daemon=True)
            self._thread.start()

    def ring(self, job_ids: set[str]) -> None:
        """Announce queued jobs; return at once, whatever the broker does."""
        if self._thread is None or not job_ids:
            return
        with self._changed:
            room = _MAX_WAITING - len(self._waiting)
            self._waiting.update(dict.fromkeys(sorted(job_ids)[: max(0, room)]))
            self._changed.notify()

    @property
    def num_waiting(self) -> int:
        """Number of messages not sent yet; at most one per job."""
        return len(self._waiting)

    def close(self) -> None:
        """Stop sending; the next service sends the remaining messages."""
        self._stop.set()
        with self._changed:
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout=2 * _SOCKET_SECONDS)
            self._thread = None

    def _run(self) -> None:
        assert self._app is not None
        self._ping()
        while not self._stop.is_set():
            job_id = self._next()
            if job_id is None:
                self._ping()
            elif self._send(job_id):
                with self._changed:
                    self._waiting.pop(job_id, None)
            else:
                self._stop.wait(_PAUSE_SECONDS)
        self._app.close()

    def _next(self) -> str | None:
        """Return the oldest waiting message; None if there was none for a while."""
        with self._changed:
            if not self._waiting and not self._stop.is_set():
                self._changed.wait(_PING_SECONDS)
            return next(iter(self._waiting), None)

    def _send(self, job_id: str) -> bool:
        assert self._app is not None
        try:
            self._app.send_task(TASK_NAME, [job_id], queue=QUEUE_NAME, retry=False)
        except Exception as error:  # noqa: BLE001  kombu, redis and sockets raise different types
            self._set_state("away", error)
            return False
        self._set_state("up")
        return True

    def _ping(self) -> None:
        assert self._app is not None
        try:
            with self._app.connection_for_write() as connection:
                connection.default_channel.client.ping()
        except Exception as error:  # noqa: BLE001  kombu, redis and sockets raise different types
            self._set_state("away", error)
        else:
            self._set_state("up")

    def _set_state(self, state: BrokerState, error: Exception | None = None) -> None:
        if state != self.state:
            cause = None if error is None else repr(error)
            log.info("broker_state", state=state, cause=cause)
        self.state = state


def _build_app(broker_url: str) -> Celery:
    app = Celery("redkiln-service", broker=broker_url, set_as_current=False)
    app.conf.update(
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        broker_connection_timeout=_SOCKET_SECONDS,
        broker_pool_limit=1,
        broker_transport_options={
            "socket_timeout": _SOCKET_SECONDS,
            "socket_connect_timeout": _SOCKET_SECONDS,
            "retry_on_timeout": False,
            "max_retries": 0,
            # Same value as the worker's: the shortest of all apps on a broker applies.
            "visibility_timeout": 3600,
        },
    )
    return app
