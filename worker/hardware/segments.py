"""Whether torch's expandable segments work on one card: tried in a child with a time limit."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from worker.hardware.override import (
    ProbeKey,
    ProbeResult,
    find_result,
    run_probe,
    save_result,
)
from worker.hardware.patches.allocator import EXPANDING, name_all

COMMAND = (sys.executable, "-m", "worker.hardware.selftest.segments")


def prove_segments(
    gpu: str,
    gfx: str,
    *,
    versions: tuple[str | None, str | None],
    environment: Mapping[str, str],
    cache_dir: Path,
    now: datetime,
    command: Sequence[str] = COMMAND,
) -> ProbeResult:
    """Return the stored verdict on a card, or try it now.

    Args:
        gpu: Key of the card; others of its kind may differ.
        gfx: Its target.
        versions: Versions of torch and of ROCm.
        environment: Environment that shows the child only this card.
        cache_dir: Folder of stored verdicts.
        now: The current time.
        command: Command that prints a `ProbeOutput`.
    """
    key = ProbeKey(gfx=gfx, value=EXPANDING, torch=versions[0], rocm=versions[1], gpu=gpu)
    known = find_result(cache_dir, key, now=now)
    if known is not None:
        return known
    result = run_probe(command, environment={**environment, **name_all(EXPANDING)}, lent=None)
    with suppress(OSError):  # the verdict is still valid; the next call tries again
        save_result(cache_dir, key, result, now=now)
    return result
