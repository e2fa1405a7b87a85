"""The Celery app: a message is a doorbell, on which the agent claims and runs available jobs."""

from typing import Any

import structlog
from celery import Celery, signals
from celery.worker import state
from celery.worker.request import Request
from kombu.entity import Queue

from worker.agent.agent import Agent

log = structlog.get_logger(__name__)

TASK_NAME = "redkiln.doorbell"
QUEUE_NAME = "redkiln"
EXIT_OK = 0
SOCKET_SECONDS = 10.0
"""A broker that hangs is disconnected after this time, and connected to again."""
RESTART_SECONDS = 2.0
"""Pause before the consumer is restarted."""


class UnacknowledgedRequest(Request):  # type: ignore[misc]
    """A received message that is not acknowledged to the broker."""

    def acknowledge(self) -> None:
        """Do nothing, because the queue expects no acknowledgement."""
        self.acknowledged = True


def build_app(agent: Agent, *, broker_url: str) -> Celery:
    """Build the app whose only task calls the agent."""
    app = Celery("redkiln-worker", broker=broker_url, set_as_current=False)
    app.conf.update(
        broker_transport_options={
            "visibility_timeout": 3600,
            "health_check_interval": 25,
            "socket_keepalive": True,
            "socket_timeout": SOCKET_SECONDS,
            "socket_connect_timeout": SOCKET_SECONDS,
        },
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # A lost message only costs a poll. But if its acknowledgement were lost because Redis
        # disappeared, it would stay in the consumer's window and block its last slot for good.
        task_queues=[Queue(QUEUE_NAME, no_ack=True)],  # type: ignore[no-untyped-call]
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=True,
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_default_queue=QUEUE_NAME,
        worker_pool="threads",
        worker_concurrency=agent.num_slots,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_enable_remote_control=False,
    )

    @app.task(name=TASK_NAME, shared=False, Request=UnacknowledgedRequest)  # type: ignore[untyped-decorator]
    def doorbell(job_id: str | None = None) -> None:
        if not agent.answer(job_id):
            # Every slot is busy with jobs found by polling: pass the message to another worker.
            app.send_task(TASK_NAME, [job_id], queue=QUEUE_NAME, retry=False)

    return app


def listen(agent: Agent, *, broker_url: str) -> None:
    """Answer the doorbell until the agent is asked to stop, as SIGTERM does.

    A message that Celery cannot read ends its consumer; running attempts continue, and another
    consumer is started.
    """

    def on_shutdown(**_: Any) -> None:
        agent.ask_to_stop()

    signals.worker_shutting_down.connect(on_shutdown)
    while not agent.is_stopping:
        worker = build_app(agent, broker_url=broker_url).Worker(
            pool="threads",
            concurrency=agent.num_slots,
            loglevel="INFO",
            quiet=True,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
        )
        worker.start()
        agent.wait_until_stopping(timeout_seconds=RESTART_SECONDS)


def stop_listening() -> None:
    """Stop Celery as its own SIGTERM handler does, whatever state Celery is in."""
    state.should_stop = EXIT_OK
