"""Progress of uploads and downloads: bytes, rate, time left."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from redkiln.client import OnUpload, Stage
from redkiln.client.transfer import OnBytes

_STAGES: dict[Stage, str] = {"reading": "reading", "uploading": "uploading"}


def transfer_bars(console: Console) -> Progress:
    """Return progress bars that count bytes; they are hidden if the console is not a terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(compact=True),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


@contextmanager
def upload_progress(console: Console, name: str) -> Iterator[OnUpload]:
    """Show a bar for each stage of an upload."""
    with transfer_bars(console) as bars:
        tasks: dict[Stage, TaskID] = {}

        def show(stage: Stage, done: int, total: int) -> None:
            if stage not in tasks:
                for task in tasks.values():
                    bars.remove_task(task)
                tasks.clear()
                tasks[stage] = bars.add_task(f"{_STAGES[stage]} {name}", total=total)
            bars.update(tasks[stage], completed=done)

        yield show


def download_counter(bars: Progress, name: str, total: int) -> OnBytes:
    """Add a bar for one file and return the function that advances it."""
    task = bars.add_task(name, total=total)

    def count(num_bytes: int) -> None:
        bars.advance(task, num_bytes)

    return count


@contextmanager
def waiting(console: Console, text: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner with a text that can change; hidden if the console is not a terminal."""
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    ) as spinner:
        task = spinner.add_task(text, total=None)
        yield lambda words: spinner.update(task, description=words)
