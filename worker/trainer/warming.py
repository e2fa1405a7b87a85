"""The first steps on a GPU, in which kernels are chosen, tuned and compiled: said, not a hang.

MIOpen times every algorithm for every new shape, TunableOp every matrix product, a compiler builds
what it was given; on a first run that takes minutes, and what was found is kept for the next one.
Until steps are steady the run is in a phase of its own that says so, what it took the last time,
and that it still goes on. The time counts as no training. A CPU has nothing of it.
"""

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from redkiln.events import EventKind
from redkiln.status import Phase
from redkiln.views.job import Progress
from worker.checkpoints.checkpoint import write_durably
from worker.hardware.kernel_cache import has_kernels
from worker.process.event_log import EventLog

RECORD = "first-steps.json"
MAX_RECORDED = 200
MIN_STEPS = 3
MAX_STEPS = 20
STEADY_RATIO = 1.3
"""Two steps in a row of which neither takes longer than this much of the other are steady."""
BEAT_SECONDS = 5.0
MAX_BEATS_SECONDS = 3600.0
"""A step that takes longer than this may be a hang after all, and nobody says any more that it is
none."""


def is_steady(durations: list[float]) -> bool:
    """Whether steps of these seconds, oldest first, have come down to what they will take."""
    if len(durations) >= MAX_STEPS:
        return True
    if len(durations) < MIN_STEPS:
        return False
    last, before, fastest = durations[-1], durations[-2], min(durations)
    return max(last, before) <= STEADY_RATIO * fastest


@dataclass(frozen=True)
class Known:
    """What the cache of kernels tells of the first steps to come.

    Attributes:
        is_same_known: this model, batch and precision ran here before.
        has_kernels: there are kernels of some other run.
        seconds: what the first steps took the last time: of the same run where it is known, else
            of the newest one that had to tune; None when there was none.
    """

    is_same_known: bool
    has_kernels: bool
    seconds: float | None


def describe(known: Known, *, spent_seconds: float = 0.0) -> str:
    """What goes on in the first steps, in words."""
    if known.is_same_known:
        text = "the first steps, with kernels that were tuned before"
        last = "" if known.seconds is None else f"about {_seconds(known.seconds)} the last time"
    else:
        where = "this model and batch" if known.has_kernels else "the first run on this GPU"
        text = f"tuning kernels for {where}"
        last = (
            "this may take minutes"
            if known.seconds is None
            else f"about {_seconds(known.seconds)} the last time"
        )
        last += ", then cached"
    spent = f" ({_seconds(spent_seconds)} so far)" if spent_seconds >= 1 else ""
    return text + spent + (f"; {last}" if last else "")


class FirstStepsRecord:
    """What the first steps took, in the folder of the kernels and gone with them.

    Args:
        folder: of the kernel cache; None where nothing is kept.
        workload: what decides which kernels are needed, as JSON.
    """

    def __init__(self, folder: Path | None, workload: object) -> None:
        self._folder = folder
        text = json.dumps(workload, sort_keys=True, default=str)
        self._key = hashlib.sha256(text.encode()).hexdigest()[:16]

    def look(self) -> Known:
        """What is known before the first step."""
        if self._folder is None:
            return Known(is_same_known=False, has_kernels=False, seconds=None)
        entries = self._load()
        same = entries.get(self._key)
        tuned = [entry["cold_seconds"] for entry in entries.values() if "cold_seconds" in entry]
        seconds = same["last_seconds"] if same else (tuned[-1] if tuned else None)
        return Known(same is not None, has_kernels(self._folder, besides=RECORD), seconds)

    def note(self, seconds: float) -> None:
        """The first steps have taken so long; a folder that cannot be written is left alone."""
        if self._folder is None:
            return
        entries = self._load()
        entry = entries.pop(self._key, None) or {"cold_seconds": round(seconds, 2)}
        entries[self._key] = {**entry, "last_seconds": round(seconds, 2)}
        newest = dict(list(entries.items())[-MAX_RECORDED:])
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            write_durably(self._folder / RECORD, json.dumps(newest, indent=1).encode())

    def _load(self) -> dict[str, dict[str, float]]:
        assert self._folder is not None
        try:
            loaded = json.loads((self._folder / RECORD).read_bytes())
        except (OSError, ValueError):
            return {}
        return loaded if isinstance(loaded, dict) else {}


class Warming:
    """Sees a run through its first steps.

    Attributes:
        is_over: steps are steady, or there was nothing to warm up.
        seconds: that the first steps took, of the host's time.

    Args:
        synchronize: waits until the device has done what it was given.
        record: of what it took before.
        event_log: told of phase, activity and outcome.
        place: progress with a number of steps made, for what is said meanwhile.
        beat_seconds: how often it is said that a step still goes on.
    """

    def __init__(
        self,
        *,
        synchronize: Callable[[], None],
        record: FirstStepsRecord,
        event_log: EventLog,
        place: Callable[[int], Progress],
        clock: Callable[[], float] = time.perf_counter,
        beat_seconds: float = BEAT_SECONDS,
    ) -> None:
        self.is_over = False
        self.seconds = 0.0
        self._durations: list[float] = []
        self._synchronize = synchronize
        self._record = record
        self._event_log = event_log
        self._place = place
        self._clock = clock
        self._beat_seconds = beat_seconds
        self._known: Known | None = None

    @property
    def num_steps(self) -> int:
        """Steps made so far."""
        return len(self._durations)

    @property
    def activity(self) -> str | None:
        """What goes on; None once steps are steady."""
        if self.is_over:
            return None
        known = self._known = self._known or self._record.look()
        return describe(known, spent_seconds=self.seconds)

    @contextlib.contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Within it a step is made.

        Args:
            number: of the step, counted from 1.
        """
        self._event_log.enter(Phase.WARMING)
        if not self._durations:
            self._say(number - 1)
        began = self._clock()
        with self._beating(number - 1, began):
            yield
            self._synchronize()
        took = self._clock() - began
        self._durations.append(took)
        self.seconds += took
        if is_steady(self._durations):
            self._end()

    def _end(self) -> None:
        self.is_over = True
        self._record.note(self.seconds)
        self._event_log.enter(Phase.TRAINING)
        self._event_log.message(
            f"steps are steady after {self.num_steps}, {_seconds(self.seconds)}: "
            f"{1000 * self._durations[-1]:.1f} ms each, {1000 * self._durations[0]:.0f} ms the "
            "first"
        )

    def _say(self, steps_made: int) -> None:
        progress = self._place(steps_made).model_copy(update={"activity": self.activity})
        # Not through `progress`: another thread must not touch the points that wait.
        self._event_log.write(EventKind.PROGRESS, **progress.model_dump())

    @contextlib.contextmanager
    def _beating(self, steps_made: int, began: float) -> Iterator[None]:
        """Say now and then that a step still goes on."""
        before = self.seconds
        is_made = threading.Event()

        def beat() -> None:
            while not is_made.wait(self._beat_seconds):
                spent = self._clock() - began
                if spent > MAX_BEATS_SECONDS:
                    return
                self.seconds = before + spent
                with contextlib.suppress(OSError):
                    self._say(steps_made)

        thread = threading.Thread(target=beat, name="first-steps", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_made.set()
            thread.join()
            self.seconds = before


def _seconds(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"
