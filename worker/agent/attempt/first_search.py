"""Says before the first training on a GPU that MIOpen will search, and for how long."""

from collections.abc import Sequence
from pathlib import Path

from redkiln.views.hardware import PatchOutcome
from worker.hardware.kernel_cache import FIRST_STEPS_RECORD, LONGEST_SEARCH_SECONDS

LONG_MINUTES = 30
"""Longest reported first search. Source: ROCm/TheRock#2591 (RDNA), read 2026-11-23."""


def describe_first_search(
    patches: Sequence[PatchOutcome], *, cache_dir: Path, stall_seconds: float
) -> str | None:
    """Describe the search that this attempt starts with, or return None.

    The self-test compiles into the same folders, but searches for its own shapes alone.

    Args:
        patches: Outcomes of the attempt's patches.
        cache_dir: Folder of its compiled and tuned kernels.
        stall_seconds: Longest time without an event.
    """
    chosen = {outcome.name: outcome for outcome in patches}
    search, caches = chosen.get("convolution_search"), chosen.get("kernel_caches")
    is_searching = search is not None and bool(search.settings)
    folders = {} if caches is None else {**caches.environment, **caches.user}
    if not is_searching or "MIOPEN_USER_DB_PATH" not in folders:
        return None
    if (cache_dir / FIRST_STEPS_RECORD).exists():
        return None
    return (
        "No job has trained on this GPU with these releases yet, so MIOpen searches for kernels "
        f"in the first steps. On some GPUs this took up to {LONG_MINUTES} minutes. The first step "
        f"may take {LONGEST_SEARCH_SECONDS / 60:.0f} minutes. In later steps, the worker stops the "
        f"job if it writes neither an event nor a file of kernels for {stall_seconds:.0f} s "
        f"(REDKILN_STALL_SECONDS). Later jobs use the kernels in {cache_dir}."
    )
