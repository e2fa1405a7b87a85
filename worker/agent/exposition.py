"""What Prometheus scrapes from a worker: its GPUs and slots, if a metrics address is set."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from redkiln.gauges import GPU_GAUGES, LABELS, read_gauges
from redkiln.version import __version__
from redkiln.views.hardware import GpuState


@dataclass(frozen=True)
class WorkerState:
    """A worker's current state.

    Attributes:
        sampling_seconds: Seconds that the latest reading of all sensors took.
    """

    worker_id: str
    gpus: Sequence[GpuState]
    slots: int
    busy_slots: int
    sampling_seconds: float


class WorkerCollector(Collector):
    """A worker's gauges, read at each scrape."""

    def __init__(self, read_state: Callable[[], WorkerState]) -> None:
        self._read_state = read_state

    def collect(self) -> Iterator[Metric]:
        """Yield all gauges."""
        state = self._read_state()
        info = GaugeMetricFamily(
            "redkiln_worker_info", "Id and version of the worker.", labels=["worker", "version"]
        )
        info.add_metric([state.worker_id, __version__], 1.0)
        yield info
        numbers = (
            ("redkiln_worker_slots", "Attempts that can run at once.", state.slots),
            ("redkiln_worker_busy_slots", "Slots that run an attempt.", state.busy_slots),
            (
                "redkiln_gpu_sampling_seconds",
                "Time that the latest reading of all sensors took.",
                state.sampling_seconds,
            ),
        )
        for name, text, value in numbers:
            yield GaugeMetricFamily(name, text, value)
        yield from gpu_gauges(state.gpus)


def gpu_gauges(gpus: Sequence[GpuState]) -> list[Metric]:
    """Build the gauges of each GPU."""
    families = {
        name: GaugeMetricFamily(name, text, labels=["gpu", *LABELS.get(name, ())])
        for name, text in GPU_GAUGES.items()
    }
    for gpu in gpus:
        for reading in read_gauges(gpu):
            own = [reading.labels[label] for label in LABELS.get(reading.gauge, ())]
            families[reading.gauge].add_metric([gpu.key, *own], reading.value)
    return list(families.values())


def serve_metrics(bind: str, read_state: Callable[[], WorkerState]) -> Callable[[], None]:
    """Serve `GET /metrics` at an address until the returned function is called.

    Raises:
        OSError: The server cannot listen on the address.
    """
    registry = CollectorRegistry()
    registry.register(WorkerCollector(read_state))
    host, _, port = bind.rpartition(":")
    server, thread = start_http_server(int(port), host.strip("[]"), registry)

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return close
