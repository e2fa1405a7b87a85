"""Sends recorded messages in a separate thread, and repeats failed deliveries."""

import threading
from collections.abc import Callable, Sequence
from functools import partial

import structlog

from service.database import Database
from service.errors import ServiceError
from service.notices.messages import News
from service.notices.rules import settle, take_due
from service.notices.sending import NotSent, send
from service.notices.targets import Target

POLL_SECONDS = 15.0

log = structlog.get_logger()


class NoticeSender:
    """Sends what `record_ends` has recorded.

    Args:
        secret: Key of the signatures of webhooks.
        allows_private: Whether targets may be inside the installation's network.
        deliver: Sends one message; replaceable in tests.
    """

    def __init__(
        self,
        database: Database,
        targets: Sequence[Target],
        *,
        secret: bytes,
        allows_private: bool,
        deliver: Callable[..., None] = send,
    ) -> None:
        self.targets = {target.label: target for target in targets}
        self._database = database
        self._deliver = partial(deliver, secret=secret, allows_private=allows_private)
        self._wake = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="notices", daemon=True)

    def start(self) -> None:
        """Start the thread, if there is anybody to send to."""
        if self.targets:
            self._thread.start()

    def wake(self) -> None:
        """Look at once for something to send."""
        self._wake.set()

    def close(self) -> None:
        """Stop; what is not sent waits for the next start."""
        self._is_closed = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=20)

    def send_due(self) -> int:
        """Send all messages that are due; return how many were tried."""
        taken = self._database.write(take_due)
        for notice, news in taken:
            target = self.targets.get(notice.target)
            gone = "the target is no longer in REDKILN_NOTICE_URLS"
            error = gone if target is None else self.try_to_send(news, target)
            self._database.write(partial(settle, notice_id=notice.id, error=error))
        return len(taken)

    def try_to_send(self, news: News, target: Target) -> str | None:
        """Send one message; return why it was not delivered."""
        try:
            self._deliver(news, target)
        except NotSent as error:
            log.warning("notice_not_sent", target=target.label, notice_id=news.id, error=str(error))
            return str(error)
        return None

    def _run(self) -> None:
        while not self._is_closed:
            self._wake.clear()
            try:
                num_tried = self.send_due()
            except ServiceError as error:
                log.warning("notices_wait", error=str(error))
                num_tried = 0
            if num_tried == 0:
                self._wake.wait(POLL_SECONDS)
