"""Decodes a whole data set on all cores.

This process begins at once. If it would take long alone, one helper for each further core joins it.
These are processes because Pillow's threads slow each other down on small images.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from redkiln.datasets import ImageIndex
from redkiln.failure import FailureCode
from worker.process.failed import TrainingFailed
from worker.trainer.images.decode.blocks import (
    SYSTEM_ERROR,
    BlockQueue,
    DecodeOrder,
    Outcome,
    decode_blocks,
    outcome_path,
)
from worker.trainer.images.decode.facts import count_rows

ROWS_A_HELPER = 500
"""Fewest rows per helper."""
HELPER_SECONDS = 0.3
"""Time that this process must still need alone for helpers to be worth their start. Each takes 0.26
s of CPU time; the 1,797 digits of scikit-learn take 0.03 s without one."""
TELL_SECONDS = 0.1
"""Interval between two progress reports."""


def decode_together(
    work: DecodeOrder, index: ImageIndex, *, cores: int, on_progress: Callable[[int, int], None]
) -> NDArray[np.int64]:
    """Decode all rows; `on_progress` is called with rows done and rows in total.

    Returns:
        (C, 256), how often each grey level occurs in the rows that count towards mean and standard
        deviation.

    Raises:
        TrainingFailed: a file is missing, has changed, or cannot be decoded; or a helper was
            killed.
        OSError: the disk is full, for example.
        RuntimeError: a helper ended with another status.
    """
    num_rows = count_rows(index)
    with BlockQueue(Path(work.folder), num_rows) as queue:
        count = num_helpers(num_rows, cores=cores) if queue.has_locks else 0
        began = time.monotonic()
        due_at, num_own = began + TELL_SECONDS, 0

        def tell() -> None:
            nonlocal due_at
            if (now := time.monotonic()) >= due_at:
                due_at = now + TELL_SECONDS
                _raise_ended(helpers)
                on_progress(queue.num_done(), num_rows)

        def count_row() -> None:
            nonlocal num_own
            num_own += 1
            if not helpers and time.monotonic() >= due_at:
                left_seconds = (time.monotonic() - began) * (num_rows / num_own - 1)
                start(count if left_seconds > HELPER_SECONDS else 0)
            tell()

        with _starting(work) as (helpers, start):
            outcomes = [decode_blocks(work, index, queue, on_row=count_row)]
            while any(helper.poll() is None for helper in helpers):
                time.sleep(0.005)
                tell()
            _raise_ended(helpers)
        on_progress(queue.num_done(), num_rows)
    paths = [outcome_path(work, number) for number in range(len(helpers))]
    outcomes.extend(Outcome.model_validate_json(path.read_bytes()) for path in paths)
    for outcome in sorted(outcomes, key=lambda outcome: outcome.row):
        if outcome.problem is not None:
            raise outcome.problem.to_error()
    levels: NDArray[np.int64] = np.array([outcome.levels for outcome in outcomes]).sum(axis=0)
    return levels


def num_helpers(num_rows: int, *, cores: int) -> int:
    """Return how many processes are worth starting in addition to this one."""
    return max(0, min(cores, num_rows // ROWS_A_HELPER) - 1)


@contextmanager
def _starting(
    work: DecodeOrder,
) -> Iterator[tuple[list[subprocess.Popen[bytes]], Callable[[int], None]]]:
    """Yield the helpers, and what starts a number of them; they end with the block."""
    path = Path(work.folder) / "work.json"
    path.write_text(work.model_dump_json())
    command = [sys.executable, "-m", "worker.trainer.images.decode.blocks", str(path)]
    environment = {**os.environ, "REDKILN_PARENT_PID": str(os.getpid())}
    checkout = Path(__file__).parents[4]
    helpers: list[subprocess.Popen[bytes]] = []

    def start(count: int) -> None:
        for number in range(count):
            helpers.append(  # noqa: PERF401 - a helper must be in the list to be stopped
                subprocess.Popen([*command, str(number)], env=environment, cwd=checkout)
            )

    try:
        yield helpers, start
    finally:
        for helper in helpers:
            if helper.poll() is None:
                helper.kill()
            helper.wait()


def _raise_ended(helpers: list[subprocess.Popen[bytes]]) -> None:
    for helper in helpers:
        status = helper.poll()
        if status == -signal.SIGKILL:
            message = (
                "a process that decodes images was killed, most likely because the host ran out of "
                "memory; free some memory or run fewer jobs at once"
            )
            raise TrainingFailed(FailureCode.KILLED, message)
        if status is not None and status > SYSTEM_ERROR:
            number = status - SYSTEM_ERROR
            raise OSError(number, os.strerror(number))
        if status:
            raise RuntimeError(f"a process that decodes images ended with status {status}")
