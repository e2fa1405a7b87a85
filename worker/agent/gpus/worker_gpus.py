"""The GPUs of this host as the worker reports them: facts, readings, attempts and exclusions."""

from dataclasses import dataclass

from redkiln.views.hardware import GpuState, GpuTelemetry
from worker.agent.gpus.pool import GpuPool
from worker.agent.gpus.sensors import HostGpus


@dataclass(frozen=True)
class WorkerGpus:
    """A host's GPUs with their sensors and leases.

    Attributes:
        pool: None on a host without GPUs, which needs no folder for leases.
    """

    host: HostGpus
    pool: GpuPool | None

    def list_states(self) -> list[GpuState]:
        """Return every GPU of the host: facts, readings, its attempt and why it is excluded."""
        if self.pool is None:
            return []
        return [
            GpuState(
                key=key,
                facts=gpu.facts.model_copy(update={"telemetry": self.host.newest(key)}),
                attempt_id=self.pool.find_attempt(key),
                excluded=self.pool.find_exclusion(key),
            )
            for key, gpu in self.pool.gpus.items()
        ]

    def read_of_attempt(self, attempt_id: str) -> list[GpuTelemetry | None]:
        """Return the newest readings of the GPUs that an attempt holds."""
        held = self.pool.held if self.pool is not None else {}
        return [self.host.newest(key) for key in sorted(held) if held[key] == attempt_id]

    def read_cost(self) -> float:
        """Return the seconds that the latest reading of all sensors took."""
        return self.host.cost_seconds
