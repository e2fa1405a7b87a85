"""Everything from which a script's metrics are read while it runs."""

from collections import deque
from collections.abc import Callable

from worker.process.event_log import EventLog
from worker.script.metrics.lines import MetricLines, ScriptMetrics, line_reader
from worker.script.metrics.tensorboard import EventFiles
from worker.script.program.paths import ScriptPaths

MAX_LINES = 100_000
"""Most lines of output that wait to be searched for metrics; the oldest are skipped."""


class MetricSources:
    """Reads `redkiln.log`, TensorBoard's event files, and lines of output that match a pattern.

    Args:
        paths: Folders of the script.
        event_log: Log that receives the metrics.
        pattern: `script.metrics_pattern`; None if the output has no metrics.
        first: `ScriptMetrics.first`.
    """

    def __init__(
        self, paths: ScriptPaths, event_log: EventLog, *, pattern: str | None, first: int = 1
    ) -> None:
        self.metrics = ScriptMetrics(event_log, first=first)
        self._event_log = event_log
        self._logged = MetricLines(paths.events_path, self.metrics)
        self._files = EventFiles(paths.out_dir)
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._read_line = None if pattern is None else line_reader(pattern, self.metrics)

    @property
    def on_line(self) -> Callable[[str], None] | None:
        """Takes a line of output, from any thread; None if lines are not searched."""
        return None if self._read_line is None else self._lines.append

    @property
    def gpu_bytes(self) -> int | None:
        """GPU memory that the script's torch has reported; None if it has not."""
        return self._logged.gpu_bytes

    def read_logged(self) -> None:
        """Read what the script has logged since the last time."""
        self._logged.read()
        if self._read_line is not None:
            while self._lines:
                self._read_line(self._lines.popleft())

    def read_all(self) -> None:
        """Read also the event files that have grown since the last time."""
        self.read_logged()
        for name, step, value in self._files.read():
            # Such a file is written minutes after what is logged in other ways.
            at = max(step, self.metrics.step)
            self.metrics.say({name: value}, progress={"step": at}, of_step=step)

    def report_progress(self) -> None:
        """Write the script's progress as an event."""
        self._event_log.progress(self.metrics.progress())

    def report_dropped(self) -> None:
        """Write a warning if values were dropped."""
        num = self.metrics.num_dropped
        if num:
            what = "1 value of a metric was" if num == 1 else f"{num:,} values of metrics were"
            first = "" if num == 1 else "the first is "
            text = f"{what} dropped: {first}{self.metrics.first_dropped}"
            self._event_log.warning("metrics_dropped", text)
