"""Draws the live view: a watched job as one panel of up to 100 columns."""

from datetime import UTC, datetime

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from redkiln.cli.view import words
from redkiln.cli.view.sensors import Sensors
from redkiln.cli.view.watched import Line, Watched
from redkiln.status import JobStatus, Phase
from redkiln.tasks import exports_model, trains_model
from redkiln.views.job import MAX_QUEUE_POSITION, PreviewNote, Progress

MAX_WIDTH = 100
STYLES = {
    "plain": "",
    "quiet": "dim",
    "phase": "bold",
    "warning": "yellow",
    "bad": "red",
    "good": "green",
}
STATUS_STYLES = {
    JobStatus.QUEUED: "yellow",
    JobStatus.RUNNING: "cyan",
    JobStatus.PAUSING: "yellow",
    JobStatus.PAUSED: "yellow",
    JobStatus.CANCELLING: "yellow",
    JobStatus.SUCCEEDED: "green",
    JobStatus.FAILED: "red",
    JobStatus.CANCELLED: "magenta",
}
_TRAINING = (
    Phase.WARMING,
    Phase.COMPILING,
    Phase.TRAINING,
    Phase.MEASURING,
    Phase.EVALUATING,
)
_STEPS: tuple[tuple[str, tuple[Phase, ...]], ...] = (
    ("prepare", (Phase.PREPARING,)),
    ("rehearse", (Phase.REHEARSING,)),
    ("train", _TRAINING),
    ("export", (Phase.EXPORTING,)),
    ("verify", (Phase.VERIFYING,)),
    ("upload", (Phase.UPLOADING,)),
)
_STEPS_WITHOUT_EXPORT: tuple[tuple[str, tuple[Phase, ...]], ...] = (
    ("prepare", (Phase.PREPARING,)),
    ("run", _TRAINING),
    ("upload", (Phase.UPLOADING,)),
)
_STEPS_OF_EXPORT = (_STEPS[0], *_STEPS[3:])
_SPARK_WIDTH = 24


class JobPanel:
    """Draws a watched job in its state at the time of drawing.

    Args:
        watched: State of the job.
        interrupt_means: Effect of Ctrl-C, as shown in the footer.
    """

    def __init__(self, watched: Watched, *, interrupt_means: str) -> None:
        self._watched = watched
        self._interrupt_means = interrupt_means

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield what rich draws."""
        is_plain = options.ascii_only
        # Leave room for the ^C that the terminal prints: a wrapped line would break the redraw.
        width = min(options.max_width - 3, MAX_WIDTH)
        watched = self._watched
        rows: list[RenderableType] = [
            _head(watched),
            _stepper(watched, is_plain=is_plain),
            Text(),
            _bar(watched),
            _numbers(watched, is_plain=is_plain),
        ]
        if watched.status == JobStatus.RUNNING and watched.sensors.current():
            rows += [Text(), _hardware(watched.sensors, is_plain=is_plain)]
        if watched.lines:
            *older, newest = watched.lines
            rows += [Text(), *(_line(line) for line in older), _line(newest, is_whole=True)]
        yield Panel(
            Group(*rows),
            title=_title(watched),
            title_align="left",
            subtitle=Text(f"{watched.job.id}   Ctrl-C {self._interrupt_means}", style="dim"),
            subtitle_align="right",
            box=box.ROUNDED,
            border_style=_border(watched),
            padding=(0, 1),
            width=width,
        )

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return the width: that of the terminal, up to a limit."""
        return Measurement(40, min(options.max_width, MAX_WIDTH))


def _title(watched: Watched) -> Text:
    title = Text(watched.job.name, style="bold")
    if watched.dataset_name:
        title.append(f"  on {watched.dataset_name}", style="not bold dim")
    return title


def status_text(status: str) -> Text:
    """Return a status in its colour."""
    styles: dict[str, str] = {str(known): style for known, style in STATUS_STYLES.items()}
    return Text(status, style=styles.get(status, ""))


def _border(watched: Watched) -> str:
    if watched.lost_connection:
        return "yellow"
    return status_text(watched.status).style or "dim"  # type: ignore[return-value]


def _head(watched: Watched) -> RenderableType:
    left = status_text(watched.status)
    left.stylize("bold")
    if watched.lost_connection:
        left.append("  service unreachable, retrying", style="yellow")
    elif watched.status == JobStatus.QUEUED:
        left.append(f"  {queue_words(watched)}", style="dim")
    elif watched.status == JobStatus.PAUSED:
        left.append(f"  resume it: redkiln resume {watched.job.id}", style="dim")
    elif watched.phase is not None:
        left.append(f"  {watched.phase}")
    right = Text(words.duration(watched.elapsed_seconds(datetime.now(UTC))), style="dim")
    return _two_sides(left, right)


def queue_words(watched: Watched) -> str:
    """Say why a queued job waits."""
    job = watched.job
    position = f"position {position_words(job.queue_position)}" if job.queue_position else ""
    reason = job.reason.message if job.reason else ""
    return ", ".join(part for part in (position, reason) if part)


def position_words(position: int) -> str:
    """Return a position in the queue; the service counts positions only up to a limit."""
    return words.count(position) + (" or later" if position >= MAX_QUEUE_POSITION else "")


def _steps_of(task: str) -> tuple[tuple[str, tuple[Phase, ...]], ...]:
    if trains_model(task):
        return _STEPS
    return _STEPS_OF_EXPORT if exports_model(task) else _STEPS_WITHOUT_EXPORT


def _stepper(watched: Watched, *, is_plain: bool) -> Text:
    done, active, ahead = ("+", ">", "-") if is_plain else ("✓", "●", "·")
    steps = _steps_of(watched.job.task)
    current = next((i for i, (_, phases) in enumerate(steps) if watched.phase in phases), -1)
    if watched.status == JobStatus.SUCCEEDED:
        current = len(steps)
    text = Text()
    for index, (name, phases) in enumerate(steps):
        if index:
            text.append("  ")
        if index < current and (watched.phases_seen & set(phases) or current == len(steps)):
            text.append(f"{done} {name}", style="green")
        elif index == current:
            text.append(f"{active} {name}", style="bold cyan")
        else:
            text.append(f"{ahead} {name}", style="dim")
    return text


def _bar(watched: Watched) -> RenderableType:
    progress = watched.progress
    fraction = progress.fraction if progress else 0.0
    eta = watched.eta_seconds()
    row = Table.grid(expand=True, padding=(0, 1))
    row.add_column(ratio=1)
    row.add_column(justify="right", width=6)
    row.add_column(justify="right", min_width=14)
    left = f"ETA {words.duration(eta)}" if eta is not None and fraction < 1 else ""
    is_started = progress is not None and (progress.step > 0 or fraction > 0)
    row.add_row(
        ProgressBar(total=1.0, completed=fraction, complete_style="cyan", finished_style="green"),
        Text(f"{100 * fraction:.0f} %" if is_started else "", style="bold"),
        Text(left, style="cyan"),
    )
    return row


def _numbers(watched: Watched, *, is_plain: bool) -> RenderableType:
    progress = watched.progress
    preparing = preparing_words(watched)
    if progress is None or (not progress.steps and (preparing or not progress.metrics)):
        return Text(preparing or "no steps yet", style="dim")
    if progress.activity is not None:
        done = f"{words.count(progress.step)} of {words.count(progress.steps)} done, now "
        return Text.assemble((done, "dim"), progress.activity)
    left = Table.grid(padding=(0, 2))
    left.add_column(style="dim")
    left.add_column()
    right = Table.grid(padding=(0, 2))
    right.add_column(style="dim")
    right.add_column(justify="right")
    if epochs := epoch_words(progress):
        right.add_row("epoch", epochs)
    if step := step_words(progress):
        right.add_row("step", step)
    speed = progress.samples_per_second
    right.add_row("samples/s", words.count(speed) if speed is not None else "")
    if (lr := progress.metrics.get("lr")) is not None:
        right.add_row("learning rate", words.number(lr))
    if progress.data_wait_ratio is not None:
        right.add_row("waits for data", f"{100 * progress.data_wait_ratio:.0f} %")
    if progress.memory_used_bytes is not None:
        right.add_row("memory", memory_words(progress))
    if progress.host_peak_bytes is not None and progress.data_bytes is not None:
        peak, data = words.memory(progress.host_peak_bytes), words.memory(progress.data_bytes)
        right.add_row("host peak", f"{peak} for {data} of data")
    for name, value in shown_metrics(progress.metrics)[:3]:
        cell = Text(words.metric(name, value), style="bold")
        if name == "train/loss" and not is_plain:
            cell.append("  " + words.sparkline(watched.losses, _SPARK_WIDTH), style="cyan")
        left.add_row(metric_words(name), cell)
    row = Table.grid(expand=True)
    row.add_column(ratio=1)
    row.add_column(justify="right")
    row.add_row(left, right)
    if progress.preview is None:
        return row
    return Group(row, Text(preview_words(watched.job.id, progress.preview), style="dim"))


def epoch_words(progress: Progress) -> str:
    """Return `3/20`; empty without epochs, and for trees, whose steps are iterations."""
    if not progress.epochs or progress.epochs == progress.steps:
        return ""
    return f"{progress.epoch}/{progress.epochs}"


def step_words(progress: Progress) -> str:
    """Return `90/900`, without the total if it is unknown; empty for a script without steps."""
    if not progress.steps:
        return words.count(progress.step) if progress.step else ""
    return f"{words.count(progress.step)}/{words.count(progress.steps)}"


def memory_words(progress: Progress) -> str:
    """Return used and allowed memory of the training: `1.2 of 23.5 GiB`."""
    assert progress.memory_used_bytes is not None
    used = words.memory(progress.memory_used_bytes)
    if progress.memory_total_bytes is None:
        return used
    total = words.memory(progress.memory_total_bytes)
    number, unit = used.split()
    return f"{number if total.endswith(unit) else used} of {total}"


def preview_words(job_id: str, note: PreviewNote) -> str:
    """Say how to look at sample predictions."""
    right = "" if note.num_right is None else f", {note.num_right} of {note.num} right"
    return f"sample predictions at step {words.count(note.step)}{right}: redkiln preview {job_id}"


_SENSORS = (
    ("busy_ratio", "cpu_ratio"),
    ("vram_used_bytes", "memory_used_bytes"),
    ("power_watts",),
    ("junction_celsius", "edge_celsius"),
    ("core_clock_hz",),
)
"""Sensors shown for each GPU and for the host, left to right: of each tuple the first known one."""


def _hardware(sensors: Sensors, *, is_plain: bool) -> RenderableType:
    """Return a line for each GPU of the job, and one for its processes."""
    current = sensors.current()
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    for _ in _SENSORS:
        table.add_column(justify="right", no_wrap=True)
    table.add_column(style="cyan", no_wrap=True)
    for place in dict.fromkeys(name.rpartition("/")[0] for name in sorted(current)):
        cells = [_sensor(current, place, names) for names in _SENSORS]
        busy = [c for name in _SENSORS[0] for c in sensors.courses.get(f"{place}/{name}", ())]
        course = "" if is_plain else words.sparkline(busy, _SPARK_WIDTH // 2)
        label = "cpu" if place == "host" else place.replace("/", " ")
        table.add_row(label, *(plain_words(cell, is_plain=is_plain) for cell in cells), course)
    return table


def _sensor(current: dict[str, float], place: str, names: tuple[str, ...]) -> str:
    for name in names:
        if (value := current.get(f"{place}/{name}")) is not None:
            return words.reading(name, value)
    return ""


def plain_words(text: str, *, is_plain: bool) -> str:
    """Return a reading as a terminal without Unicode can show it: `71 C`."""
    return text.replace("°", "") if is_plain else text


def preparing_words(watched: Watched) -> str:
    """Say how much of the data set is decoded or tokenised, before the first step."""
    metrics = watched.progress.metrics if watched.progress else {}
    for (kind, noun), verb in _PREPARED.items():
        if (done := metrics.get(f"{kind}/{noun}")) is not None:
            total = words.count(metrics.get(f"{kind}/total", 0))
            return f"{verb} {words.count(done)} of {total} {noun}"
    return ""


_PREPARED = {("decode", "images"): "decoded", ("tokenize", "texts"): "tokenised"}
"""Series that count the preparation before the first step: `KIND/NOUN`, of `KIND/total`."""
_PREPARING_METRICS = frozenset(
    f"{kind}/{name}" for kind, noun in _PREPARED for name in (noun, "total")
)

HEADLINES = ("val/map", "val/miou", "val/accuracy", "val/rmse")
"""The metrics by which models are judged; which one depends on the task."""
_FIRST_METRICS = ("train/loss", *HEADLINES, "val/macro_f1", "val/loss", "train/accuracy")


def shown_metrics(metrics: dict[str, float]) -> list[tuple[str, float]]:
    """Return the metrics, the most important ones first; `lr` is shown elsewhere."""
    first = [name for name in _FIRST_METRICS if name in metrics]
    elsewhere = {*_FIRST_METRICS, *_PREPARING_METRICS, "lr"}
    rest = [name for name in sorted(metrics) if name not in elsewhere]
    return [(name, metrics[name]) for name in (*first, *rest)]


def metric_words(name: str) -> str:
    """Return a metric's name for people: `val/accuracy` is `val accuracy`, `train/loss` `loss`."""
    name = name.replace("/map", "/mAP")  # mean average precision, as it is usually written
    return name.removeprefix("train/").replace("/", " ").replace("_", " ")


def _line(line: Line, *, is_whole: bool = False) -> RenderableType:
    text = Text(line.text, style=STYLES[line.tone])
    if not is_whole:
        text.no_wrap, text.overflow = True, "ellipsis"
    row = Table.grid(padding=(0, 2))
    row.add_row(Text(f"{line.at.astimezone():%H:%M:%S}", style="dim"), text)
    return row


def _two_sides(left: Text, right: Text) -> RenderableType:
    left.no_wrap, left.overflow = True, "ellipsis"
    row = Table.grid(expand=True)
    row.add_column(ratio=1)
    row.add_column(justify="right")
    row.add_row(left, right)
    return row
