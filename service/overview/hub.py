"""One reader of the overview for everyone who may see the same.

The state is a set of sections, each rendered once as JSON with the number at which it changed. A
watcher who has seen number N gets the sections that changed after it. Numbers begin at the time of
the start in milliseconds, so that they rise over restarts.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

import structlog
from anyio import to_thread
from pydantic import TypeAdapter

from redkiln.views.doctor import Diagnosis
from redkiln.views.overview import SECTIONS
from service.doctor.rules import diagnose
from service.errors import ServiceError
from service.overview import snapshot
from service.overview.sparklines import Sparklines
from service.services import Services

LOOK_SECONDS = 2.0
"""Longest time between two reads while somebody watches: another process may change a job."""
REST_SECONDS = 1.0
"""Shortest time between two reads."""
DOCTOR_SECONDS = 10.0

log = structlog.get_logger(__name__)
_JSON: TypeAdapter[object] = TypeAdapter(object)


class OverviewHub:
    """Reads the overview while it is watched, at most once a second.

    Args:
        services: Parts of the service.
        project: Project whose jobs are shown; None for all jobs.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self,
        services: Services,
        *,
        project: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._services = services
        self._project = project
        self._clock = clock
        self._sparklines = Sparklines(services.database)
        self._diagnosis: tuple[float, Diagnosis] | None = None
        self._seq = time.time_ns() // 1_000_000
        self._sections: dict[str, tuple[int, bytes]] = {}
        self._read_at: float | None = None
        self._reading = asyncio.Lock()
        self._changed = asyncio.Event()
        self._num_watchers = 0
        self._task: asyncio.Task[None] | None = None

    async def current(self) -> bytes:
        """Return the whole overview as JSON, at most a second old.

        Raises:
            ServiceError: The database is away.
        """
        await self._refresh()
        return self._render(after_seq=-1)

    async def stream(self, *, after_seq: int, heartbeat_seconds: float) -> AsyncIterator[bytes]:
        """Stream the sections that change, as Server-Sent Events, until the service stops.

        Args:
            after_seq: Number that the watcher has seen; -1 for none. An unknown one counts as none.
            heartbeat_seconds: Longest silence before a comment is sent.
        """
        self._begin()
        try:
            while not self._services.changes.is_closed:
                changed = self._changed
                if after_seq > self._seq:
                    after_seq = -1  # the clock was set back before a restart
                if self._sections and after_seq < self._seq:
                    seq, document = self._seq, self._render(after_seq=after_seq)
                    yield b"id: %d\nevent: overview\ndata: %b\n\n" % (seq, document)
                    after_seq = seq
                    continue
                try:
                    async with asyncio.timeout(heartbeat_seconds):
                        await changed.wait()
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self._num_watchers -= 1

    async def close(self) -> None:
        """End the reading task; the streams end because the service stops."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _begin(self) -> None:
        self._num_watchers += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="overview")

    async def _run(self) -> None:
        """Read again after each change, and from time to time, while somebody watches."""
        changes = self._services.changes
        with changes.follow_all() as changed:
            while self._num_watchers and not changes.is_closed:
                changed.clear()
                try:
                    await self._refresh()
                except ServiceError as error:
                    log.warning("overview_postponed", cause=error.detail)
                await _wait(changed, LOOK_SECONDS)
                if not changes.is_closed:
                    await asyncio.sleep(REST_SECONDS)
        self._notify()

    async def _refresh(self) -> None:
        """Read the sections, unless they were read less than the rest ago."""
        async with self._reading:
            if self._read_at is not None and self._clock() - self._read_at < REST_SECONDS:
                return
            sections = await to_thread.run_sync(self._read)
            self._read_at = self._clock()
            known = {name: text for name, (_, text) in self._sections.items()}
            changed = {name: text for name, text in sections.items() if known.get(name) != text}
            if changed:
                self._seq += 1
                self._sections |= {name: (self._seq, text) for name, text in changed.items()}
                self._notify()

    def _notify(self) -> None:
        event, self._changed = self._changed, asyncio.Event()
        event.set()

    def _read(self) -> dict[str, bytes]:
        services, project = self._services, self._project
        gpus = snapshot.read_gpus(services, project)
        values = {
            "counts": snapshot.read_counts(services, project),
            "running": snapshot.read_running(services, project, gpus, self._sparklines),
            "waiting": snapshot.read_waiting(services, project),
            "ended": snapshot.read_ended(services, project),
            "gpus": gpus,
            "disk": snapshot.read_disk(services),
            "health": snapshot.read_health(services),
            "doctor": snapshot.first_line(self._diagnose()),
        }
        return {name: _JSON.dump_json(values[name]) for name in SECTIONS}

    def _diagnose(self) -> Diagnosis:
        now = self._clock()
        if self._diagnosis is None or now - self._diagnosis[0] >= DOCTOR_SECONDS:
            services = self._services
            found = services.database.read(
                lambda session: diagnose(session, services.settings, broker=services.doorbell.state)
            )
            self._diagnosis = (now, found)
        return self._diagnosis[1]

    def _render(self, *, after_seq: int) -> bytes:
        parts = [f'"seq":{self._seq},"at":"{datetime.now(UTC).isoformat()}"'.encode()]
        parts += [
            b'"%b":%b' % (name.encode(), text)
            for name, (seq, text) in self._sections.items()
            if seq > after_seq
        ]
        return b"{%b}" % b",".join(parts)


async def _wait(changed: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await changed.wait()
    except TimeoutError:
        return
