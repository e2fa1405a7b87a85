"""The devices that the doctor tries, and the leases that keep jobs away from them meanwhile."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from worker.hardware.choose import gpu_key
from worker.hardware.doctor.evidence import Evidence
from worker.hardware.leases import Holder, LeaseFolder, release
from worker.hardware.masks import list_offered, pick_visible, show_only
from worker.hardware.peers import guard_links

WORKER_ID = "doctor"


@dataclass(frozen=True)
class Places:
    """The devices to try.

    Attributes:
        devices: Torch's name of each device, with the key of its lease; None if it has no lease.
        num_ranks: Number of processes of the all-reduce; 1 if there is nothing to exchange.
        link_environ: Environment of these processes, which shows them only these devices.
    """

    devices: Mapping[str, str | None]
    num_ranks: int
    link_environ: Mapping[str, str]


def find_places(evidence: Evidence, environ: Mapping[str, str]) -> Places:
    """Return each discrete GPU that torch opens, or the GPU inside the processor, or the CPU.

    If torch and the driver count different GPUs, only torch's first one has a known name.
    """
    num_gpus = (evidence.torch.num_devices or 0) if evidence.torch else 0
    if not num_gpus:
        return Places({"cpu": None}, 2, environ)
    safe = guard_links(evidence.gpus, environ)
    offered = list_offered(evidence.gpus)
    shown = pick_visible(offered, environ)
    if len(shown) != num_gpus:
        return Places({"cuda:0": None}, num_gpus, safe)
    used = [gpu for gpu in shown if not gpu.is_apu] or shown
    keys = {f"cuda:{shown.index(gpu)}": gpu_key(gpu) for gpu in used}
    return Places(keys, len(used), show_only(used, safe, offered=offered))


@contextmanager
def reserve(keys: Iterable[str | None], lock_dir: Path) -> Iterator[str]:
    """Lease GPUs for the block.

    Yields:
        Why they are not free; empty if they were leased.
    """
    wanted = [key for key in keys if key is not None]
    if not wanted:
        yield ""
        return
    try:
        folder = LeaseFolder(lock_dir)
    except OSError as error:
        yield f"the leases in {lock_dir} cannot be used: {error.strerror}"
        return
    leases = folder.take(wanted)
    try:
        for lease in leases or ():
            lease.describe(Holder(worker_id=WORKER_ID))
        yield "" if leases is not None else _name_holder(folder, wanted)
    finally:
        release(leases or ())
        folder.close()


def _name_holder(folder: LeaseFolder, keys: Iterable[str]) -> str:
    holders = (folder.find_holder(key) for key in keys)
    holder = next((found for found in holders if found is not None), None)
    if holder is None:
        return "another process uses it"
    user = f"attempt {holder.attempt_id}" if holder.attempt_id else f"worker {holder.worker_id}"
    return f"{user} uses it"
