"""A thread that records an attempt's GPUs and processes while it runs."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from redkiln.views.hardware import GpuTelemetry
from worker.agent.attempt.group import Usage, read_group
from worker.agent.attempt.series import FINEST_MS, SeriesBuffer

log = structlog.get_logger(__name__)

MAX_COST_RATIO = 0.01
"""Share of one core that reading may take; slow sensors are read less often."""
GPU_SENSORS = (
    "busy_ratio",
    "vram_used_bytes",
    "gtt_used_bytes",
    "power_watts",
    "junction_celsius",
    "core_clock_hz",
)
ReadGpus = Callable[[], Sequence[GpuTelemetry | None]]


def no_gpus() -> Sequence[GpuTelemetry | None]:
    """Return no readings, for a job that runs on a CPU."""
    return ()


@dataclass(frozen=True)
class RecordedProcess:
    """The process that is recorded.

    Attributes:
        group: Id of its process group.
        read_gpus: Returns the latest readings of the attempt's GPUs, in their order.
    """

    group: int
    read_gpus: ReadGpus


class Recorder:
    """Reads an attempt's sensors at most once a second, and adds the readings to `series`.

    Args:
        num_cores: Number of cores that the attempt's processes may use.
        read_usage: Returns the usage of a process group.
    """

    def __init__(
        self,
        *,
        num_cores: int,
        read_usage: Callable[[int], Usage | None] = read_group,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.series = SeriesBuffer()
        self._num_cores = num_cores
        self._read_usage = read_usage
        self._clock = clock
        # Wall time is read once, so that a clock that is set back does not distort the curves.
        self._epoch_ms = time.time() * 1000 - clock() * 1000
        self._subject: RecordedProcess | None = None
        self._usage: tuple[float, Usage] | None = None
        self._num_reads = 0
        self._spent_seconds = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    @property
    def mean_seconds(self) -> float | None:
        """Mean seconds that one round of reading takes; None before the first round."""
        return self._spent_seconds / self._num_reads if self._num_reads else None

    def start(self) -> None:
        """Start recording; nothing is read before `follow` is called."""
        self._thread.start()

    def follow(self, group: int, read_gpus: ReadGpus = no_gpus) -> None:
        """Record a process group and the GPUs that it uses."""
        self._usage = None
        self._subject = RecordedProcess(group, read_gpus)

    def rest(self) -> None:
        """Pause recording while no child runs."""
        self._subject = None

    def halt(self) -> None:
        """Stop recording."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._num_reads:
            log.debug("telemetry recorded", reads=self._num_reads, mean_seconds=self.mean_seconds)

    def record(self) -> float:
        """Read all sensors once; return the seconds that it took."""
        began = self._clock()
        subject = self._subject
        if subject is None:
            return 0.0
        readings = {**read_gpu_sensors(subject.read_gpus()), **self._read_host(subject, began)}
        spent = self._clock() - began
        self._num_reads += 1
        self._spent_seconds += spent
        if readings and subject is self._subject:
            self.series.add(readings, at_ms=int(self._epoch_ms + began * 1000))
        return spent

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            try:
                spent = self.record()
            except Exception:  # a faulty sensor must not cost a training run
                log.exception("recording telemetry failed")
                return
            pause = max(FINEST_MS / 1000, spent / MAX_COST_RATIO)

    def _read_host(self, subject: RecordedProcess, now: float) -> dict[str, float]:
        usage = self._read_usage(subject.group)
        before, self._usage = self._usage, None if usage is None else (now, usage)
        if usage is None:
            return {}
        readings = {"host/memory_used_bytes": float(usage.memory_bytes)}
        if before is not None and now > before[0]:
            cpu_seconds = max(0.0, usage.cpu_seconds - before[1].cpu_seconds)
            ratio = cpu_seconds / (now - before[0]) / self._num_cores
            readings["host/cpu_ratio"] = min(1.0, ratio)
        return readings


def read_gpu_sensors(gpus: Sequence[GpuTelemetry | None]) -> Mapping[str, float]:
    """Return readings by the names of their series; sensors without a reading are omitted."""
    return {
        f"gpu/{index}/{sensor}": float(value)
        for index, telemetry in enumerate(gpus)
        if telemetry is not None
        for sensor in _sensors_of(telemetry)
        if (value := getattr(telemetry, sensor)) is not None
    }


def _sensors_of(telemetry: GpuTelemetry) -> Sequence[str]:
    """Older cards have only one temperature sensor, at the edge."""
    has_junction = telemetry.junction_celsius is not None
    return GPU_SENSORS if has_junction else (*GPU_SENSORS, "edge_celsius")
