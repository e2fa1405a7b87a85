"""Leases of the GPUs that another engine than torch uses, between all workers of a host."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import structlog

from worker.hardware.leases import GpuLease, Holder, LeaseFolder

log = structlog.get_logger(__name__)
_NO_LOCK = "cannot lock the GPU; make REDKILN_LOCK_DIR a folder that this worker can write"


class EnginePool:
    """The GPUs of an engine.

    Args:
        lock_dir: Folder of all leases of this host.
    """

    def __init__(self, lock_dir: Path, *, worker_id: str) -> None:
        self._worker_id = worker_id
        self._folder = LeaseFolder(lock_dir)

    def take(self, keys: Sequence[str]) -> list[GpuLease] | None:
        """Lease the GPUs; None if another job has one of them, or the leases cannot be used."""
        try:
            leases = self._folder.take(keys)
        except OSError as error:
            log.error(_NO_LOCK, error=str(error))
            return None
        self.mark(leases or ())
        return leases

    def mark(self, leases: Iterable[GpuLease], attempt_id: str | None = None) -> None:
        """Record the attempt for which these leases are held."""
        holder = Holder(worker_id=self._worker_id, attempt_id=attempt_id)
        for lease in leases:
            try:
                lease.describe(holder)
            except OSError as error:  # a full disk, for instance; only the lock itself matters
                log.warning("could not write the lease's holder", gpu=lease.key, error=str(error))

    def close(self) -> None:
        """Close the folder; leases continue to exist."""
        self._folder.close()
