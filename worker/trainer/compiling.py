"""Shows that a silent trainer compiles or searches for kernels, which may take many minutes.

The first convolutions on a new GPU or release make MIOpen search for the fastest kernels, and
torch.compile makes Inductor and Triton compile. The training loop waits for them and writes no
event, and a trainer without events counts as stalled. A thread looks at the folders in which these
libraries keep their kernels: while files appear or change there, the trainer is alive.

Source: ROCm/TheRock#2591 (15 to 30 minutes on RDNA), read 2026-11-23.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from worker.hardware.kernel_cache import Files, list_files
from worker.hardware.patches.kernel_caches import find_folders
from worker.process.event_log import EventLog

LOOK_SECONDS = 5.0
QUIET_SECONDS = 15.0
"""A trainer that has written no event for this long may be compiling."""


class KernelWatch:
    """Reports changes of the kernel folders while nothing else is reported.

    Args:
        folders: Folders of compiled kernels, which may not exist yet.
        event_log: Receives the phase and the number of files.
    """

    def __init__(self, folders: Iterable[Path], event_log: EventLog) -> None:
        self._folders = tuple(folders)
        self._event_log = event_log
        self._seen: Files | None = None
        self._first: Files = {}
        self._own_at: float | None = None

    def look(self) -> None:
        """Compare the folders with the last look, and report what has changed.

        Nothing is read while the trainer writes events.
        """
        log = self._event_log
        if self._own_at is not None and log.written_at != self._own_at:
            self._own_at = None
            log.end_compiling()
        if log.silent_seconds < QUIET_SECONDS:
            if self._own_at is None:
                self._seen = None
            return
        files = list_files(self._folders)
        before, self._seen = self._seen, files
        if before is None:
            self._first = files
        elif files != before:
            log.show_compiling(self._describe(files))
            self._own_at = log.written_at

    def _describe(self, files: Files) -> str:
        num_new = len(files.keys() - self._first.keys())
        plural = "" if len(files) == 1 else "s"
        return f"compiling kernels: {len(files)} file{plural}, {num_new} new"


@contextmanager
def watch_kernels(event_log: EventLog, environ: Mapping[str, str]) -> Iterator[None]:
    """Report the compilation of kernels until the block ends.

    Args:
        event_log: The run's events.
        environ: Environment that names the folders, as `kernel_caches` sets it.
    """
    watch, ended = KernelWatch(find_folders(environ), event_log), threading.Event()

    def run() -> None:
        while not ended.wait(LOOK_SECONDS):
            watch.look()

    thread = threading.Thread(target=run, name="kernel-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
