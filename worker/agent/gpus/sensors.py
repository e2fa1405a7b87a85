"""The GPUs of this host with their latest sensor readings."""

from collections.abc import Sequence

from redkiln.views.hardware import GpuFacts, GpuTelemetry
from worker.hardware.choose import gpu_key
from worker.hardware.facts.cards import find_device_dir
from worker.hardware.facts.discover import discover_gpus
from worker.hardware.facts.sampler import Sampler
from worker.settings import WorkerSettings


class HostGpus:
    """Facts, read once, and sensors, read by a separate thread.

    Attributes:
        facts: Facts of every GPU that the driver lists, usable or not.
    """

    def __init__(self, facts: Sequence[GpuFacts], sampler: Sampler) -> None:
        self.facts = tuple(facts)
        self._sampler = sampler

    @property
    def cost_seconds(self) -> float:
        """Seconds that the latest reading of all sensors took."""
        return self._sampler.cost_seconds

    def newest(self, key: str) -> GpuTelemetry | None:
        """Return the latest reading of a GPU."""
        return self._sampler.newest(key)

    def start(self) -> None:
        """Start reading the sensors; a host without GPUs needs no thread."""
        if self.facts:
            self._sampler.start()

    def stop(self) -> None:
        """Stop reading."""
        self._sampler.stop()


def find_host_gpus(settings: WorkerSettings) -> HostGpus:
    """Read the driver's files once."""
    facts = discover_gpus(topology_dir=settings.topology_dir, drm_dir=settings.drm_dir)
    device_dirs = {
        gpu_key(gpu): find_device_dir(gpu.card, drm_dir=settings.drm_dir) for gpu in facts
    }
    return HostGpus(facts, Sampler({key: path for key, path in device_dirs.items() if path}))
