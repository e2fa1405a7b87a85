"""Registers this worker with the service, asks for work, and re-registers when forgotten."""

import os
import secrets
import socket
import time
from collections.abc import Callable

import structlog

from redkiln.protocol import PROTOCOL_VERSION, ClaimRequest, ClaimResponse, HelloRequest
from redkiln.version import __version__
from worker.agent.client import (
    ProtocolMismatch,
    ServiceAway,
    ServiceClient,
    ServiceError,
    Superseded,
)
from worker.agent.inventory import Inventory
from worker.agent.offers import NoClaim, Offers
from worker.settings import WorkerSettings

log = structlog.get_logger(__name__)

NO_BROKER_POLL_SECONDS = 1.0
"""Poll this often without a broker, because there is no doorbell."""
FORGOTTEN_SECONDS = 60.0
"""Being forgotten again within this time means that another worker uses this worker's id."""


class Registration:
    """One worker's registration with the service.

    Args:
        client: Client of the service.
        settings: The worker's settings.
        worker_id: Id that is kept in the worker's folder.
        boot_id: Id of this process.
        inventory: Inventory of this machine.
        fail: Called with the reason why the worker cannot continue.

    Attributes:
        is_known: Whether the service has answered a hello and has not forgotten the worker.
        poll_seconds: Time between two requests for work; known after the first hello.
    """

    def __init__(
        self,
        client: ServiceClient,
        settings: WorkerSettings,
        *,
        worker_id: str,
        boot_id: str,
        inventory: Inventory,
        fail: Callable[[str], None],
    ) -> None:
        self.is_known = False
        self.poll_seconds = NO_BROKER_POLL_SECONDS
        self._client = client
        self._settings = settings
        self._worker_id = worker_id
        self._boot_id = boot_id
        self._inventory = inventory
        self._fail = fail
        self._claim_id: str | None = None
        self._greeted_at = -float("inf")

    def greet(self, *, slots: int) -> bool:
        """Say hello; return whether the service welcomed the worker.

        Args:
            slots: Number of attempts that the worker runs at once.
        """
        request = HelloRequest(
            worker_id=self._worker_id,
            boot_id=self._boot_id,
            protocol=PROTOCOL_VERSION,
            version=__version__,
            hostname=socket.gethostname(),
            slots=slots,
            **self._inventory.model_dump(),
        )
        try:
            answer = self._client.hello(request)
        except ProtocolMismatch as error:
            self._fail_by_release(error)
        except ServiceError as error:
            log.warning("hello failed", service=self._settings.service_url, error=str(error))
        else:
            self.is_known = True
            self._greeted_at = time.monotonic()
            self.poll_seconds = self._choose_poll_seconds(answer.poll_seconds)
            # Tells `native` and the containers' health checks that the worker has registered.
            (self._settings.worker_dir / "ready").write_text(f"{os.getpid()}\n")
            log.info("welcome", worker_id=self._worker_id, slots=slots)
        return self.is_known

    def claim(self, offers: Offers, *, hint: str | None) -> ClaimResponse | NoClaim:
        """Ask for a job for the free slots.

        Args:
            offers: The free slots.
            hint: Job id from the doorbell message.
        """
        # Repeat a claim whose answer was lost: the service may have assigned an attempt to it.
        self._claim_id = self._claim_id or secrets.token_hex(16)
        request = ClaimRequest(
            claim_id=self._claim_id,
            worker_id=self._worker_id,
            boot_id=self._boot_id,
            devices=offers.kinds,
            arches=offers.arches,
            busy=offers.busy_engines,
            hint=hint,
        )
        claim: ClaimResponse | None = None
        try:
            claim = self._client.claim(request)
        except ServiceAway as error:
            log.warning("claim got no answer", error=str(error))
            return NoClaim.UNANSWERED
        except ServiceError as error:
            self._on_refusal(error)
        self._claim_id = None
        return claim or NoClaim.NO_JOB

    def _on_refusal(self, error: ServiceError) -> None:
        if isinstance(error, ProtocolMismatch):
            self._fail_by_release(error)
        elif not isinstance(error, Superseded):
            log.error("claim refused", error=str(error))
        elif time.monotonic() - self._greeted_at < FORGOTTEN_SECONDS:
            self._fail(
                f"{error}; if another worker has the id {self._worker_id}, "
                "set REDKILN_WORKER_DIR to a separate folder for each"
            )
        else:
            log.warning("the service has forgotten this worker; saying hello again")
            self.is_known = False

    def _fail_by_release(self, error: ProtocolMismatch) -> None:
        self._fail(f"{error}; install the same release of the service and the worker")

    def _choose_poll_seconds(self, offered: float) -> float:
        if self._settings.poll_seconds is not None:
            return self._settings.poll_seconds
        return offered if self._settings.broker_url else min(offered, NO_BROKER_POLL_SECONDS)
