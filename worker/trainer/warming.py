"""The first steps on a GPU, in which kernels are chosen, tuned and compiled.

MIOpen times every algorithm for every new shape, TunableOp every matrix product, and a compiler
builds kernels. In a first run that takes minutes; the results are cached for later runs. Until
steps are steady the run is in a separate phase, which reports what is happening, how long it took
last time, and that the run is still alive. This time does not count as training. On a CPU there is
nothing to warm up.
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
from worker.hardware.kernel_cache import FIRST_STEPS_RECORD as RECORD
from worker.hardware.kernel_cache import LONGEST_SEARCH_SECONDS, count_kernels, has_kernels
from worker.process.event_log import EventLog

MAX_RECORDED = 200
MIN_STEPS = 3
MAX_STEPS = 20
STEADY_RATIO = 1.3
"""Two consecutive steps are steady if neither takes longer than this many times the fastest."""
BEAT_SECONDS = 5.0


def is_steady(durations: list[float]) -> bool:
    """Return whether step times in seconds, oldest first, have settled."""
    if len(durations) >= MAX_STEPS:
        return True
    if len(durations) < MIN_STEPS:
        return False
    last, before, fastest = durations[-1], durations[-2], min(durations)
    return max(last, before) <= STEADY_RATIO * fastest


@dataclass(frozen=True)
class Known:
    """What the kernel cache shows about the first steps to come.

    Attributes:
        is_same_known: Whether this model, batch and precision ran here before.
        has_kernels: Whether there are kernels of another run.
        seconds: Time of the first steps last time: of the same run if known, else of the newest
            run that had to tune; None if there was none.
    """

    is_same_known: bool
    has_kernels: bool
    seconds: float | None


def describe(known: Known, *, spent_seconds: float = 0.0, num_files: int = 0) -> str:
    """Describe what happens in the first steps, as a message to the user.

    Args:
        known: State of the kernel cache.
        spent_seconds: Time of the first steps so far.
        num_files: Files of kernels so far.
    """
    if known.is_same_known:
        text = "running the first steps with kernels tuned earlier"
        last = "" if known.seconds is None else f"took about {_seconds(known.seconds)} last time"
    else:
        where = "this model and batch" if known.has_kernels else "the first run on this GPU"
        text = f"tuning kernels for {where}"
        last = (
            "this may take minutes"
            if known.seconds is None
            else f"took about {_seconds(known.seconds)} last time"
        )
        last += "; the result is cached"
    parts = [f"{_seconds(spent_seconds)} so far"] if spent_seconds >= 1 else []
    parts += [f"{num_files} files of kernels"] if num_files > 1 else []
    spent = f" ({', '.join(parts)})" if parts else ""
    return text + spent + (f"; {last}" if last else "")


class FirstStepsRecord:
    """How long the first steps took, stored in the kernel cache and removed with it.

    Args:
        folder: Folder of the kernel cache, or None.
        workload: Everything that decides which kernels are needed, as JSON.
    """

    def __init__(self, folder: Path | None, workload: object) -> None:
        self._folder = folder
        text = json.dumps(workload, sort_keys=True, default=str)
        self._key = hashlib.sha256(text.encode()).hexdigest()[:16]

    def look(self) -> Known:
        """Return what is known before the first step."""
        if self._folder is None:
            return Known(is_same_known=False, has_kernels=False, seconds=None)
        entries = self._load()
        same = entries.get(self._key)
        tuned = [entry["cold_seconds"] for entry in entries.values() if "cold_seconds" in entry]
        seconds = same["last_seconds"] if same else (tuned[-1] if tuned else None)
        return Known(same is not None, has_kernels(self._folder, besides=RECORD), seconds)

    def count_files(self) -> int:
        """Return the number of files in the kernel cache."""
        return 0 if self._folder is None else count_kernels(self._folder)

    def note(self, seconds: float) -> None:
        """Record how long the first steps took; ignore a folder that cannot be written."""
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
    """Guides a run through its first steps.

    Attributes:
        is_over: Whether steps are steady, or there is nothing to warm up.
        seconds: Host time of the first steps.

    Args:
        synchronize: Waits until the device has finished its queued work.
        record: How long the first steps took before.
        event_log: Receives phase, activity and outcome.
        place: Returns the progress after a number of steps, for reports during the first steps.
        clock: Returns seconds.
        beat_seconds: Interval of reports that a step is still running.
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
        """Steps done so far."""
        return len(self._durations)

    @property
    def activity(self) -> str | None:
        """What is happening; None once steps are steady."""
        if self.is_over:
            return None
        known = self._known = self._known or self._record.look()
        num_files = self._record.count_files()
        return describe(known, spent_seconds=self.seconds, num_files=num_files)

    @contextlib.contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Time the step that is run inside the block.

        Args:
            number: Number of the step, counted from 1.
        """
        self._event_log.enter(Phase.WARMING)
        if not self._durations:
            self._report_progress(number - 1)
        began = self._clock()
        with self._reporting_progress(number - 1, began):
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
            f"warm after {self.num_steps} steps ({_seconds(self.seconds)}): the first took "
            f"{1000 * self._durations[0]:.0f} ms, now each takes "
            f"{1000 * self._durations[-1]:.1f} ms"
        )

    def _report_progress(self, steps_made: int) -> None:
        progress = self._place(steps_made).model_copy(update={"activity": self.activity})
        # Not through `progress`, because another thread must not touch the queued points.
        self._event_log.write(EventKind.PROGRESS, **progress.model_dump())

    @contextlib.contextmanager
    def _reporting_progress(self, steps_made: int, began: float) -> Iterator[None]:
        """Report at intervals that a step is still running."""
        before = self.seconds
        is_made = threading.Event()

        def report_until_done() -> None:
            while not is_made.wait(self._beat_seconds):
                spent = self._clock() - began
                if spent > LONGEST_SEARCH_SECONDS:
                    return
                self.seconds = before + spent
                with contextlib.suppress(OSError):
                    self._report_progress(steps_made)

        thread = threading.Thread(target=report_until_done, name="first-steps", daemon=True)
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
